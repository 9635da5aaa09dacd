cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH third_party)
add_library(yaml-cpp INTERFACE IMPORTED GLOBAL)
set_property(TARGET yaml-cpp PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${third_party}/include)
set_property(TARGET yaml-cpp PROPERTY INTERFACE_LINK_LIBRARIES ${third_party}/lib/libyaml-cpp.a)
