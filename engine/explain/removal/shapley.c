#include "engine/explain/removal/shapley.h"

#include <math.h>
#include <string.h>

enum { BLOCK_SLACK = 256 }; /* alignment and red zone of one arena block */

/* ---- exact ---- */

void vt_shapley_exact(double *phi, const double *v, size_t M)
{
    const size_t all = (size_t)1 << M;
    memset(phi, 0, M * sizeof *phi);
    for (size_t s = 0; s < all; s++) {
        size_t size = 0;
        for (size_t i = 0; i < M; i++)
            size += s >> i & 1;
        if (size == M)
            continue;
        double weight = 1.0 / (double)M; /* size! (M - size - 1)! / M! */
        for (size_t j = 1; j <= size; j++)
            weight *= (double)j / (double)(M - j);
        for (size_t i = 0; i < M; i++)
            if (!(s >> i & 1))
                phi[i] += weight * (v[s | (size_t)1 << i] - v[s]);
    }
}

/* ---- permutations ---- */

bool vt_permutations_open(vt_permutations *p, size_t M, size_t unit, vt_arena *arena)
{
    *p = (vt_permutations){.M = M, .unit = unit};
    p->sum = vt_arena_calloc(arena, 4 * M, sizeof *p->sum);
    if (!p->sum)
        return false;
    p->part = p->sum + M;
    p->first = p->part + M;
    p->second = p->first + M;
    return true;
}

size_t vt_permutations_bytes(size_t M)
{
    return 4 * M * sizeof(double) + BLOCK_SLACK;
}

void vt_permutations_add(vt_permutations *p, const uint32_t *order, const double *v)
{
    for (size_t i = 0; i < p->M; i++) {
        p->sum[order[i]] += v[i + 1] - v[i];
        p->part[order[i]] += v[i + 1] - v[i];
    }
    p->count++;
    if (p->count % p->unit != 0)
        return;
    p->units++;
    for (size_t i = 0; i < p->M; i++) {
        const double mean = p->part[i] / (double)p->unit;
        p->first[i] += mean;
        p->second[i] += mean * mean;
        p->part[i] = 0.0;
    }
}

bool vt_permutations_result(const vt_permutations *p, double *phi, double *std_error)
{
    const double n = (double)p->units;
    for (size_t i = 0; i < p->M; i++) {
        phi[i] = p->sum[i] / (double)p->count;
        std_error[i] = 0.0;
        if (p->units < 2)
            continue;
        const double variance = (p->second[i] - p->first[i] * p->first[i] / n) / (n - 1.0);
        std_error[i] = sqrt(fmax(variance, 0.0) / n);
    }
    return p->units >= 2;
}

/* ---- KernelSHAP ---- */

bool vt_kernel_open(vt_kernel *k, size_t M, size_t outputs, vt_arena *arena)
{
    *k = (vt_kernel){.M = M, .outputs = outputs};
    k->a = vt_arena_calloc(arena, VT_KERNEL_GROUPS * M, M * sizeof *k->a);
    k->b = vt_arena_calloc(arena, outputs * VT_KERNEL_GROUPS, M * sizeof *k->b);
    k->work = vt_arena_alloc(arena, M * M + 4 * M, sizeof *k->work);
    return k->a && k->b && k->work;
}

size_t vt_kernel_bytes(size_t M)
{
    return ((VT_KERNEL_GROUPS + 1) * M * M + (VT_KERNEL_GROUPS + 4) * M) * sizeof(double) + 3 * BLOCK_SLACK;
}

size_t vt_kernel_bytes_more(size_t M)
{
    return VT_KERNEL_GROUPS * M * sizeof(double);
}

double vt_kernel_size_share(size_t s, size_t M)
{
    double sum = 0.0;
    for (size_t j = 1; j < M; j++)
        sum += 1.0 / ((double)j * (double)(M - j));
    return 1.0 / ((double)s * (double)(M - s)) / sum;
}

void vt_kernel_add(vt_kernel *k, size_t pair, const uint8_t *z, const double *v, const double *empty)
{
    const size_t M = k->M, g = pair % VT_KERNEL_GROUPS;
    double *a = k->a + g * M * M;
    for (size_t i = 0; i < M; i++) {
        if (!z[i])
            continue;
        for (size_t o = 0; o < k->outputs; o++)
            k->b[(o * VT_KERNEL_GROUPS + g) * M + i] += v[o] - empty[o];
        for (size_t j = 0; j <= i; j++)
            a[i * M + j] += (double)z[j];
    }
    k->count[g]++;
    k->pairs = pair + 1 > k->pairs ? pair + 1 : k->pairs;
}

/* l (M, M) = lower factor of itself, in place. False where a pivot is not positive. */
static bool factor(double *l, size_t M)
{
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum = l[i * M + j];
            for (size_t k = 0; k < j; k++)
                sum -= l[i * M + k] * l[j * M + k];
            if (i > j)
                l[i * M + j] = sum / l[j * M + j];
            else if (sum > 1e-12)
                l[i * M + i] = sqrt(sum);
            else
                return false;
        }
    return true;
}

/* x (M): l l^T x = x as given. */
static void solve(const double *l, double *x, size_t M)
{
    for (size_t i = 0; i < M; i++) {
        for (size_t k = 0; k < i; k++)
            x[i] -= l[i * M + k] * x[k];
        x[i] /= l[i * M + i];
    }
    for (size_t i = M; i-- > 0;) {
        for (size_t k = i + 1; k < M; k++)
            x[i] -= l[k * M + i] * x[k];
        x[i] /= l[i * M + i];
    }
}

/* phi (M) of an output and all groups but `without` (none: VT_KERNEL_GROUPS). False without a coalition. */
static bool solve_without(const vt_kernel *k, size_t output, size_t without, double total, double *phi)
{
    static const double ridges[] = {0.0, 1e-9, 1e-6};
    const size_t M = k->M;
    double *l = k->work, *ones = l + M * M; /* (M, M), (M) */
    const double *b = k->b + output * VT_KERNEL_GROUPS * M;
    size_t n = 0;
    for (size_t g = 0; g < VT_KERNEL_GROUPS; g++)
        n += g == without ? 0 : k->count[g];
    if (n == 0)
        return false;
    for (size_t r = 0; r < sizeof ridges / sizeof *ridges; r++) {
        memset(l, 0, M * M * sizeof *l);
        for (size_t g = 0; g < VT_KERNEL_GROUPS; g++)
            for (size_t i = 0; g != without && i < M * M; i++)
                l[i] += k->a[g * M * M + i] / (double)n;
        for (size_t i = 0; i < M; i++)
            l[i * M + i] += ridges[r];
        if (factor(l, M))
            break;
    }
    for (size_t i = 0; i < M; i++) {
        phi[i] = 0.0;
        ones[i] = 1.0;
        for (size_t g = 0; g < VT_KERNEL_GROUPS; g++)
            phi[i] += g == without ? 0.0 : b[g * M + i] / (double)n;
    }
    solve(l, phi, M);
    solve(l, ones, M);
    double sum = 0.0, sum_ones = 0.0;
    for (size_t i = 0; i < M; i++) {
        sum += phi[i];
        sum_ones += ones[i];
    }
    for (size_t i = 0; i < M; i++)
        phi[i] -= ones[i] * (sum - total) / sum_ones;
    return true;
}

bool vt_kernel_result(const vt_kernel *k, size_t output, double total, double *phi, double *std_error)
{
    const size_t M = k->M;
    double *one = k->work + M * M + M, *first = one + M, *second = first + M; /* (M) each */
    size_t groups = 0;
    memset(std_error, 0, M * sizeof *std_error);
    memset(first, 0, 2 * M * sizeof *first);
    if (!solve_without(k, output, VT_KERNEL_GROUPS, total, phi))
        return false;
    for (size_t g = 0; g < VT_KERNEL_GROUPS; g++) {
        if (k->count[g] == 0 || !solve_without(k, output, g, total, one))
            continue;
        groups++;
        for (size_t i = 0; i < M; i++) { /* about phi, so that the squares keep their digits */
            first[i] += one[i] - phi[i];
            second[i] += (one[i] - phi[i]) * (one[i] - phi[i]);
        }
    }
    if (groups < 2)
        return false;
    const double n = (double)groups;
    for (size_t i = 0; i < M; i++)
        std_error[i] = sqrt(fmax(second[i] - first[i] * first[i] / n, 0.0) * (n - 1.0) / n);
    return true;
}

/* ---- trust ---- */

double vt_shapley_stability(const double *phi, const double *std_error, size_t M)
{
    double mean = 0.0, spread = 0.0, errors = 0.0;
    for (size_t i = 0; i < M; i++)
        mean += phi[i] / (double)M;
    for (size_t i = 0; i < M; i++) {
        spread += (phi[i] - mean) * (phi[i] - mean);
        errors += std_error[i] * std_error[i];
    }
    return errors > 0.0 ? (spread - errors) / (spread + errors) : 1.0;
}
