# What `cmake --install` installs with the programs, and the Debian package made of the same tree.
# Paths in the unit follow the prefix that is installed to; with /usr, configuration is in /etc.

set(etc ${PROJECT_SOURCE_DIR}/etc)
install(DIRECTORY ${etc}/models/semantic-tiny ${etc}/models/semantic-tiny-recurrent
  DESTINATION ${CMAKE_INSTALL_DATADIR}/semantic/models)
install(DIRECTORY ${etc}/scenarios ${etc}/nginx ${etc}/prometheus ${etc}/grafana
  DESTINATION ${CMAKE_INSTALL_DATADIR}/semantic)
install(FILES ${etc}/semantic-models.yaml DESTINATION ${CMAKE_INSTALL_DATADIR}/semantic)
install(FILES ${etc}/package/semantic-server.bash RENAME semantic-server
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/semantic-server)

install(CODE "set(etc \"${etc}\")")
install(CODE [[
  set(root "$ENV{DESTDIR}")
  set(prefix "${CMAKE_INSTALL_PREFIX}")
  set(sysconf "${prefix}/etc")
  if(prefix STREQUAL "/usr")
    set(sysconf "/etc")
  endif()
  file(READ "${etc}/systemd/semantic-server.service" unit)
  string(REPLACE "/usr/local/bin/" "${prefix}/bin/" unit "${unit}")
  string(REPLACE " /etc/semantic/semantic-server.conf" " ${sysconf}/semantic/semantic-server.conf"
    unit "${unit}")
  file(WRITE "${root}${prefix}/lib/systemd/system/semantic-server.service" "${unit}")
  # A configuration that somebody has changed stays. file(INSTALL) puts DESTDIR in front by itself.
  if(NOT EXISTS "${root}${sysconf}/semantic/semantic-server.conf")
    file(INSTALL "${etc}/semantic-server.conf" DESTINATION "${sysconf}/semantic")
  endif()
  foreach(page semantic-server.8 semantic-eval.1)
    string(REGEX REPLACE ".*\\." "man" section ${page})
    file(MAKE_DIRECTORY "${root}${prefix}/share/man/${section}")
    execute_process(COMMAND gzip -9nc "${etc}/package/${page}"
      OUTPUT_FILE "${root}${prefix}/share/man/${section}/${page}.gz" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(INSTALL "${etc}/package/copyright" DESTINATION "${prefix}/share/doc/semantic-server")
  execute_process(COMMAND gzip -9nc "${etc}/package/changelog"
    OUTPUT_FILE "${root}${prefix}/share/doc/semantic-server/changelog.gz" COMMAND_ERROR_IS_FATAL ANY)
]])

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME semantic-server)
set(CPACK_PACKAGE_VENDOR "Semantic")
set(CPACK_PACKAGE_CONTACT "Semantic maintainers <maintainers@semantic.example>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM inference on CPUs, with a memory on disk for every agent")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Serves language models over the Messages, Chat Completions and Responses APIs.
 What each agent has read and said is kept as keys and values in RAM and on disk,
 so that its next turn computes what is new alone, after a restart too.")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "nginx, prometheus")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${etc}/package/postinst ${etc}/package/prerm
  ${etc}/package/postrm ${etc}/package/conffiles)
include(CPack)
