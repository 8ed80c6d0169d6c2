/* OpenBLAS chooses its kernels when it is loaded, before main(), and a release older than the processor chooses badly. The
 * one remedy from outside is a variable that must be there at the start: so set it and start again, once. The process
 * keeps its id; nothing has been opened yet. Where this fails, the slow kernels serve.
 *
 * The second start is also told to begin with one thread: OpenBLAS would start one for each core, which then look for work
 * in a loop while the models are opened, and which the sandbox of files would not hold for (server/sandbox). That alone is a
 * reason to start again. vt_set_blas_threads starts those that blas_threads asks for. */
#include "server/config/config.h"
#include "vitral/run.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* More than this thread, and nobody has said how many there should be. */
static bool has_threads(void)
{
    struct stat info;
    return !getenv("OPENBLAS_NUM_THREADS") && stat("/proc/self/task", &info) == 0 && info.st_nlink > 3;
}

void vts_restart_for_blas(char **argv)
{
    const char *core = vt_blas_better_core(); /* NULL once the variable is set */
    char path[4096];                          /* by its own name, which is what `ps` then shows */
    const ssize_t n = core || has_threads() ? readlink("/proc/self/exe", path, sizeof path - 1) : -1;
    if (n <= 0 || (core && setenv("OPENBLAS_CORETYPE", core, 1) != 0) || setenv("OPENBLAS_NUM_THREADS", "1", 0) != 0)
        return;
    path[n] = '\0';
    execv(path, argv);
    execv("/proc/self/exe", argv); /* the file was replaced in the meantime */
}
