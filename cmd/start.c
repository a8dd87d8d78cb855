/* start: where the command begins as a program of its own. */
#include "cmd.h"

int
main(int argc, char **argv)
{
    return tenon_command(argc, argv);
}
