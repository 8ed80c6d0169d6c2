/* deploy/get-model.sh against a hub of our own: what it fetches, what it refuses, and that a refusal changes nothing.
 *
 * The hub is a child process on a port of its own that serves the embedded model's files under several names, with the
 * redirect and the digest header of the real one. Without curl the tests are skipped. */
#include "tests/support/suite.h"
#include "vitral/hash.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define WEIGHTS "models/default/model.safetensors"

static char folder[256], output[8192];
static unsigned port;
static pid_t hub;

/* ---- the hub ---- */

static void answer(int fd, const char *status, const char *headers, const void *body, size_t size)
{
    char head[1024];
    const int n = snprintf(head, sizeof head, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\n\r\n",
                           status, headers, size);
    if (write(fd, head, (size_t)n) != n)
        return;
    for (size_t done = 0; done < size;) {
        const ssize_t k = write(fd, (const char *)body + done, size - done);
        if (k <= 0)
            return;
        done += (size_t)k;
    }
}

static void answer_file(int fd, const char *file)
{
    size_t size = 0;
    uint8_t *data = vt_test_read(file, &size);
    answer(fd, data ? "200 OK" : "404 Not Found", "", data ? (const char *)data : "", size);
    free(data);
}

static void digest_of(const char *file, char text[65])
{
    size_t size = 0;
    uint8_t *data = vt_test_read(file, &size), digest[32];
    vt_sha256 hash;
    vt_sha256_init(&hash);
    vt_sha256_update(&hash, data, size);
    vt_sha256_final(&hash, digest);
    for (size_t k = 0; k < 32; k++)
        snprintf(text + 2 * k, 3, "%02x", digest[k]);
    free(data);
}

/* An index that puts every tensor of the embedded model into one file. */
static char *index_text(void)
{
    size_t size = 0;
    uint64_t length = 0;
    uint8_t *data = vt_test_read(WEIGHTS, &size);
    for (int k = 7; k >= 0; k--)
        length = length << 8 | data[k];
    const char *key;
    json_t *value, *header = json_loadb((const char *)data + 8, length, 0, NULL), *map = json_object();
    json_object_foreach(header, key, value) if (strcmp(key, "__metadata__") != 0)
        json_object_set_new(map, key, json_string("model-00001-of-00001.safetensors"));
    json_t *root = json_pack("{s:o}", "weight_map", map);
    char *text = json_dumps(root, 0);
    json_decref(root);
    json_decref(header);
    free(data);
    return text;
}

static bool path_is(const char *request, const char *path)
{
    const size_t n = strlen(path);
    return strncmp(request, path, n) == 0 && request[n] == ' ';
}

static void serve(int fd, const char *request)
{
    char headers[256], digest[65];
    const bool secret = strstr(request, "\r\nAuthorization: Bearer open-sesame\r\n") != NULL;
    if (path_is(request, "/timm/good/resolve/main/config.json") ||
        path_is(request, "/timm/good/resolve/v2/config.json") ||
        path_is(request, "/me/sharded/resolve/main/config.json") ||
        path_is(request, "/timm/corrupt/resolve/main/config.json") ||
        path_is(request, "/timm/junk/resolve/main/config.json") ||
        (path_is(request, "/me/gated/resolve/main/config.json") && secret)) {
        answer_file(fd, "models/default/config.json");
    } else if (path_is(request, "/timm/good/resolve/main/model.safetensors") ||
               path_is(request, "/me/gated/resolve/main/model.safetensors")) {
        digest_of(WEIGHTS, digest);
        snprintf(headers, sizeof headers, "X-Linked-Etag: \"%s\"\r\nLocation: /store/weights\r\n", digest);
        answer(fd, "302 Found", headers, "", 0);
    } else if (path_is(request, "/timm/corrupt/resolve/main/model.safetensors")) {
        digest_of("models/default/config.json", digest);
        snprintf(headers, sizeof headers, "x-linked-etag: \"%s\"\r\nlocation: /store/weights\r\n", digest);
        answer(fd, "302 Found", headers, "", 0);
    } else if (path_is(request, "/timm/junk/resolve/main/model.safetensors")) {
        answer(fd, "200 OK", "", "PK\003\004 this is no checkpoint", 26);
    } else if (path_is(request, "/me/sharded/resolve/main/model.safetensors.index.json")) {
        char *text = index_text();
        answer(fd, "200 OK", "", text, strlen(text));
        free(text);
    } else if (path_is(request, "/store/weights") ||
               path_is(request, "/me/sharded/resolve/main/model-00001-of-00001.safetensors")) {
        answer_file(fd, WEIGHTS);
    } else if (path_is(request, "/timm/good/resolve/main/labels.txt")) {
        answer_file(fd, "models/default/labels.txt");
    } else if (strncmp(request, "/me/gated/", 10) == 0 && !secret) {
        answer(fd, "401 Unauthorized", "", "", 0);
    } else {
        answer(fd, "404 Not Found", "", "", 0);
    }
}

static void run_hub(int listener)
{
    for (;;) {
        char request[4096];
        size_t have = 0;
        const int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            _exit(1);
        request[0] = '\0';
        while (have + 1 < sizeof request && !strstr(request, "\r\n\r\n")) {
            const ssize_t n = read(fd, request + have, sizeof request - have - 1);
            if (n <= 0)
                break;
            have += (size_t)n;
            request[have] = '\0';
        }
        if (strncmp(request, "GET ", 4) == 0)
            serve(fd, request + 4);
        close(fd);
    }
}

/* ---- fixture ---- */

static void set_up(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/vitral-hub-XXXXXX", tmp && *tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(listener, 0);
    ck_assert_int_eq(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(listener, 8), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    port = ntohs(address.sin_port);
    signal(SIGPIPE, SIG_IGN);
    hub = fork();
    ck_assert_int_ge(hub, 0);
    if (hub == 0)
        run_hub(listener);
    close(listener);
}

static void tear_down(void)
{
    char command[600];
    if (hub > 0) {
        kill(hub, SIGKILL);
        waitpid(hub, NULL, 0);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static bool no_curl(void)
{
    if (system("command -v curl >/dev/null") == 0)
        return false;
    printf("skip: curl not found\n");
    return true;
}

/* Exit status of the script with these words; what it said is in `output`. */
static int get(const char *environment, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int get(const char *environment, const char *fmt, ...)
{
    char words[512], command[2048];
    const char *build = getenv("VITRAL_BUILD");
    va_list args;
    va_start(args, fmt);
    vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    snprintf(command, sizeof command, "HF_ENDPOINT=http://127.0.0.1:%u VITRAL=%s/vitral %s deploy/get-model.sh %s 2>&1",
             port, build && *build ? build : "build", environment, words);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    const size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = '\0';
    const int status = pclose(pipe);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool there(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Files in the folder, hidden ones counted: nothing half-done may lie around. */
static int entries(void)
{
    char command[600];
    int n = -1;
    snprintf(command, sizeof command, "ls -A %s | wc -l", folder);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

#define SAYS(text) ck_assert_msg(strstr(output, text) != NULL, "\"%s\" is not in: %s", text, output)

/* ---- tests ---- */

START_TEST(fetches_checks_and_replaces)
{
    if (no_curl())
        return;
    ck_assert_msg(get("", "good %s/m", folder) == 0, "%s", output);
    SAYS("digest as promised");
    SAYS("ready: vitrald --model");
    ck_assert(there("m/model.safetensors") && there("m/config.json") && there("m/labels.txt"));
    ck_assert(!there("m/preprocessor_config.json"));
    ck_assert_int_eq(entries(), 1);
    ck_assert_msg(get("", "timm/good@main %s/m/", folder) == 0, "%s", output); /* over the old one */
    ck_assert_int_eq(entries(), 1);
    ck_assert(there("m/model.safetensors") && !there("m/m"));
}
END_TEST

START_TEST(fetches_shards)
{
    if (no_curl())
        return;
    ck_assert_msg(get("", "me/sharded %s/m", folder) == 0, "%s", output);
    ck_assert(there("m/model.safetensors.index.json") && there("m/model-00001-of-00001.safetensors"));
}
END_TEST

START_TEST(token_opens_what_is_gated)
{
    if (no_curl())
        return;
    ck_assert_int_eq(get("", "me/gated %s/m", folder), 1);
    SAYS("HF_TOKEN");
    ck_assert_int_eq(entries(), 0);
    ck_assert_msg(get("HF_TOKEN=open-sesame", "me/gated %s/m", folder) == 0, "%s", output);
    ck_assert(!strstr(output, "open-sesame"));
    ck_assert_int_eq(entries(), 1);
}
END_TEST

static const struct refused {
    const char *words, *sentence;
} refused[] = {
    {"me/nothing", "the hub has no model me/nothing"},
    {"timm/corrupt", "other bytes than the hub promised"},
    {"timm/junk", "Vitral cannot serve timm/junk"},
    {"good@v2", "has no weights as safetensors"},
    {"a/b/c", "is no name of the hub"},
    {"../x", "is no name of the hub"},
    {"'a b'", "letters, digits"},
    {"good@", "no revision"},
};

START_TEST(refusal_changes_nothing)
{
    if (no_curl())
        return;
    ck_assert_msg(get("", "good %s/m", folder) == 0, "%s", output);
    ck_assert_int_eq(get("", "%s %s/m", refused[_i].words, folder), 1);
    SAYS(refused[_i].sentence);
    ck_assert(there("m/model.safetensors") && there("m/config.json") && there("m/labels.txt"));
    ck_assert_int_eq(entries(), 1);
}
END_TEST

START_TEST(offline_is_said_plainly)
{
    if (no_curl())
        return;
    ck_assert_int_eq(get("HF_ENDPOINT=http://127.0.0.1:1", "good %s/m", folder), 1);
    SAYS("cannot be reached: is this machine online? Nothing was changed.");
    ck_assert_int_eq(get("HF_ENDPOINT=https://hub.invalid", "good %s/m", folder), 1);
    SAYS("cannot be reached: is this machine online? Nothing was changed.");
    ck_assert_int_eq(entries(), 0);
}
END_TEST

START_TEST(foreign_folder_is_left_alone)
{
    char command[600];
    if (no_curl())
        return;
    snprintf(command, sizeof command, "mkdir %s/m && echo precious >%s/m/thesis.txt", folder, folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(get("", "good %s/m", folder), 1);
    SAYS("something else than a model");
    ck_assert(there("m/thesis.txt"));
}
END_TEST

VT_SUITE("get-model", tcase_add_checked_fixture(tc, set_up, tear_down); tcase_add_test(tc, fetches_checks_and_replaces);
         tcase_add_test(tc, fetches_shards); tcase_add_test(tc, token_opens_what_is_gated);
         tcase_add_loop_test(tc, refusal_changes_nothing, 0, (int)(sizeof refused / sizeof refused[0]));
         tcase_add_test(tc, offline_is_said_plainly); tcase_add_test(tc, foreign_folder_is_left_alone))
