# Writes OUT: the files IN as C string literals, one per line, for `#include` as an initialiser.
set(text "")
foreach(file ${IN})
  file(READ "${file}" part)
  string(APPEND text "${part}")
endforeach()
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "??" "?\\?" text "${text}")     # no trigraphs
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE "${OUT}" "\"${text}\"\n")
