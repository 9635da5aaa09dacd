# Writes the commit of the sources as a header, if it is another one than that of the last build. Called on every build:
#   cmake -DSOURCE=... -DOUTPUT=... -P write_commit.cmake
set(commit "unknown")
find_program(GIT git)
if(GIT AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty=-modified --exclude=* --abbrev=12
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(commit ${described})
  endif()
else()  # an archive, in which git has written the commit
  file(STRINGS ${SOURCE}/cmake/archived_commit.txt archived LIMIT_COUNT 1)
  if(archived MATCHES "^[0-9a-f]+$")
    string(SUBSTRING ${archived} 0 12 commit)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define MOEPLAN_COMMIT \"${commit}\"\n")
