#include "tests/bench/report/rows.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

const char *bench_text(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

static void forget_openblas(void)
{
    char name[128];
    for (size_t k = 0; environ[k];) {
        const size_t n = strcspn(environ[k], "=");
        if (strncmp(environ[k], "OPENBLAS_", 9) != 0 || n >= sizeof name) {
            k++;
            continue;
        }
        memcpy(name, environ[k], n);
        name[n] = '\0';
        if (unsetenv(name) != 0) /* moves the following ones up */
            return;
    }
}

bool bench_rows_of_program(json_t *rows, const char *const *argv, const char *run, bool clean)
{
    int ends[2], status = 1;
    char *line = NULL;
    size_t room = 0;
    if (pipe(ends) != 0)
        return false;
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (clean)
            forget_openblas();
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]), close(ends[1]);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        perror(argv[0]);
        _exit(127);
    }
    close(ends[1]);
    FILE *in = pid > 0 ? fdopen(ends[0], "r") : NULL;
    while (in && getline(&line, &room, in) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        if (!json_is_object(row)) {
            json_decref(row);
            continue;
        }
        json_object_set_new(row, "run", json_string(run));
        json_array_append_new(rows, row);
        if (isatty(STDERR_FILENO)) /* it takes minutes: show that it lives */
            fprintf(stderr, "\r%-24.24s %-50.50s", run, bench_text(row, "name"));
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-75s\r", "");
    free(line);
    if (in)
        fclose(in);
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void bench_rows_of_peers(json_t *rows, const char *path, const char *run)
{
    FILE *in = fopen(path, "r");
    char *line = NULL, name[256];
    size_t room = 0;
    while (in && getline(&line, &room, in) > 0) {
        json_t *row = json_loads(line, 0, NULL);
        const json_t *median = json_object_get(row, "cpu_ms_med"), *least = json_object_get(row, "cpu_ms_min");
        if (median && least) {
            snprintf(name, sizeof name, "%s: %s", bench_text(row, "peer"), bench_text(row, "case"));
            json_array_append_new(rows,
                                  json_pack("{s:s, s:s, s:s, s:f, s:f}", "group", "peers", "name", name, "run", run,
                                            "ms", json_number_value(median), "ms_min", json_number_value(least)));
        } else if (*bench_text(row, "error")) {
            fprintf(stderr, "bench: %s: %s\n", bench_text(row, "peer"), bench_text(row, "error"));
        }
        json_decref(row);
    }
    free(line);
    if (in)
        fclose(in);
}

static bool fits(const json_t *row, const char *key, const char *wanted)
{
    return !wanted || strcmp(bench_text(row, key), wanted) == 0;
}

double bench_rows_value(const json_t *rows, const char *group, const char *name, const char *backend, const char *run,
                        const char *key)
{
    size_t k, count = 0;
    double sum = 0.0;
    const json_t *row;
    json_array_foreach(rows, k, row)
    {
        const json_t *value = json_object_get(row, key);
        if (value && fits(row, "group", group) && fits(row, "name", name) && fits(row, "backend", backend) &&
            fits(row, "run", run)) {
            sum += json_number_value(value);
            count++;
        }
    }
    return count ? sum / (double)count : (double)NAN;
}
