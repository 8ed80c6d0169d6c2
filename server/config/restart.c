/* OpenBLAS chooses its kernels when it is loaded, before main(), and a release older than the processor chooses badly. The
 * one remedy from outside is a variable that must be there at the start: so set it and start again, once. The process
 * keeps its id; nothing has been opened yet. Where this fails, the slow kernels serve.
 *
 * The second start is also told to begin with one thread: OpenBLAS would start one for each core, which then look for work
 * in a loop while the models are opened. vt_set_blas_threads starts those that blas_threads asks for. */
#include "server/config/config.h"
#include "vitral/run.h"

#include <stdlib.h>
#include <unistd.h>

void vts_restart_for_blas(char **argv)
{
    const char *core = vt_blas_better_core(); /* NULL once the variable is set */
    char path[4096];                          /* by its own name, which is what `ps` then shows */
    const ssize_t n = core ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
    if (n <= 0 || setenv("OPENBLAS_CORETYPE", core, 1) != 0)
        return;
    (void)setenv("OPENBLAS_NUM_THREADS", "1", 0);
    path[n] = '\0';
    execv(path, argv);
    execv("/proc/self/exe", argv); /* the file was replaced in the meantime */
}
