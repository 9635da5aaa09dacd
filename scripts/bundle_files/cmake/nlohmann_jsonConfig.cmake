cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH third_party)
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED GLOBAL)
set_property(TARGET nlohmann_json::nlohmann_json PROPERTY INTERFACE_INCLUDE_DIRECTORIES ${third_party}/include)
