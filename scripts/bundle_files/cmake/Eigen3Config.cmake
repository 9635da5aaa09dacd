cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH third_party)
add_library(Eigen3::Eigen INTERFACE IMPORTED GLOBAL)
set_property(TARGET Eigen3::Eigen PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${third_party}/include/eigen3)
