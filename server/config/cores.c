/* How many cores this process may really use: the scheduler's affinity, cut by the quota of its control group.
 *
 * Inside a container the machine's core count is the wrong number: with a quota of two, sixty-four workers are throttled.
 * v2 keeps the quota in cpu.max of the group and of every group above it; v1 in cpu.cfs_quota_us. Whatever cannot be read
 * sets no limit. */
#include "server/config/config.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

static bool read_line(const char *root, const char *path, const char *name, char *line, size_t size)
{
    char full[512];
    const int n = snprintf(full, sizeof full, "%s%s%s", root, path, name);
    if (n < 0 || (size_t)n >= sizeof full)
        return false;
    FILE *file = fopen(full, "re");
    const bool ok = file && fgets(line, (int)size, file);
    if (file)
        fclose(file);
    return ok;
}

/* ceil(quota / period), or no limit. */
static int quota_cores(const char *quota, const char *period)
{
    char *end;
    const double q = strtod(quota, &end), p = strtod(period, NULL);
    if (end == quota || !(q > 0.0) || !(p > 0.0))
        return 1 << 20;
    const double cores = q / p;
    return cores >= 4096.0 ? 4096 : (int)cores + (cores > (double)(int)cores);
}

/* v2: the group's own cpu.max and that of each group above it. */
static int quota_v2(const char *root)
{
    char line[512], group[512] = "";
    int best = 1 << 20;
    FILE *file;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    file = fopen(line, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            memcpy(group, line + 3, strlen(line + 3) + 1);
        }
    if (file)
        fclose(file);
    for (;;) {
        char path[600];
        snprintf(path, sizeof path, "/sys/fs/cgroup%s%s", strcmp(group, "/") == 0 ? "" : group, "/");
        if (read_line(root, path, "cpu.max", line, sizeof line)) {
            char *blank = strchr(line, ' ');
            const int cores = blank ? quota_cores(line, blank + 1) : 1 << 20;
            if (cores < best)
                best = cores;
        }
        char *slash = strrchr(group, '/');
        if (!slash || !group[0])
            return best;
        *slash = '\0';
    }
}

static int quota_v1(const char *root)
{
    static const char *const places[] = {"/sys/fs/cgroup/cpu/", "/sys/fs/cgroup/cpu,cpuacct/"};
    char quota[64], period[64];
    for (size_t k = 0; k < VT_COUNT(places); k++)
        if (read_line(root, places[k], "cpu.cfs_quota_us", quota, sizeof quota) &&
            read_line(root, places[k], "cpu.cfs_period_us", period, sizeof period))
            return quota_cores(quota, period);
    return 1 << 20;
}

int vts_cores(const char *root)
{
    cpu_set_t set;
    int cores = 1;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        cores = CPU_COUNT(&set);
    const int v2 = quota_v2(root), v1 = quota_v1(root);
    if (v2 < cores)
        cores = v2;
    if (v1 < cores)
        cores = v1;
    return cores < 1 ? 1 : cores;
}
