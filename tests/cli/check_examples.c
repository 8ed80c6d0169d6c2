/* Every example of README.md and docs/ is executed: what stands between "```sh" and "```", with a server of the embedded
 * model, in a folder of its own that shows the project's files.
 *
 * "```sh (not run: REASON)" marks an example that needs a network, root or hours; each is named in the output, with its
 * reason. A block of any other language is no example. Code that is only indented is refused: nobody could mark it.
 * In an example, localhost:8080 and 127.0.0.1:8080 stand for the server, build/ for the folder of the programs; a curl that
 * gets an error as its answer fails; a vitrald that serves is stopped after a moment. */
#include "tests/support/program.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static vt_program vitrald;
static char folder[] = P_tmpdir "/vitral-check-examples-XXXXXX", root[4096], build[4096];

static void set_up(void)
{
    static const char *const shown[] = {"static", "models", "docs", "deploy", "openapi.yaml", "README.md"};
    const char *given = getenv("VITRAL_BUILD");
    ck_assert_ptr_nonnull(getcwd(root, sizeof root));
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_ptr_nonnull(realpath(given && *given ? given : "build", build));
    for (size_t k = 0; k < sizeof shown / sizeof shown[0]; k++)
        vt_test_shell("ln -s '%s/%s' %s/", root, shown[k], folder);
    vt_test_shell("ln -s '%s' %s/build", build, folder);
    vitrald = vt_program_start_ready((const char *const[]){"--listen", "127.0.0.1:0", "--log", "none", NULL});
}

static void tear_down(void)
{
    vt_program_kill(&vitrald);
    vt_test_shell("rm -rf %s", folder);
}

/* ---- one example ---- */

static const char prelude[] = "set -eu\n"
                              "curl() { command curl --fail -sS \"$@\"; }\n"
                              "vitrald() {\n"
                              "    case \" $* \" in\n"
                              "    *' --help '* | *' --version '*) command vitrald \"$@\" ;;\n"
                              "    *' --listen '*) timeout --preserve-status 2 vitrald \"$@\" ;;\n"
                              "    *) timeout --preserve-status 2 vitrald --listen 127.0.0.1:0 \"$@\" ;;\n"
                              "    esac\n"
                              "}\n";

/* text with each of these replaced; malloc'ed. */
static char *translated(const char *text)
{
    char port[32];
    snprintf(port, sizeof port, "127.0.0.1:%u", vitrald.port);
    const struct {
        const char *from, *to;
    } words[] = {{"localhost:8080", port}, {"127.0.0.1:8080", port}, {"build/vitral", "vitral"}};
    char *out = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&out, &size);
    ck_assert_ptr_nonnull(to);
    while (*text) {
        bool found = false;
        for (size_t k = 0; k < sizeof words / sizeof words[0] && !found; k++)
            if (strncmp(text, words[k].from, strlen(words[k].from)) == 0) {
                fputs(words[k].to, to);
                text += strlen(words[k].from);
                found = true;
            }
        if (!found)
            fputc(*text++, to);
    }
    ck_assert_int_eq(fclose(to), 0);
    return out;
}

static void run(const char *file, int line, const char *example)
{
    char path[128], command[8000], output[128];
    char *body = translated(example);
    snprintf(path, sizeof path, "%s/.example", folder);
    snprintf(output, sizeof output, "%s/.output", folder);
    FILE *script = fopen(path, "w");
    ck_assert_ptr_nonnull(script);
    fprintf(script, "%s%s", prelude, body);
    ck_assert_int_eq(fclose(script), 0);
    snprintf(command, sizeof command, "cd %s && PATH='%s':\"$PATH\" timeout 60 sh .example >.output 2>&1 </dev/null",
             folder, build);
    const int status = system(command);
    if (status != 0) {
        size_t size;
        char *said = (char *)vt_test_read(output, &size);
        ck_abort_msg("%s, line %d: exit status %d of\n%.1500s\nwhich says: %.1500s", file, line, status >> 8, body,
                     said ? said : "");
    }
    free(body);
}

/* ---- one file ---- */

static bool begins(const char *line, const char *with)
{
    return strncmp(line, with, strlen(with)) == 0;
}

/* Runs the examples of a file; how many there were. */
static int examples_of(const char *file)
{
    static const char *const commands[] = {"curl ", "vitral ", "vitrald ", "build/",
                                           "make",  "./run",   "deploy/",  "docker "};
    static char example[8192];
    size_t size, used = 0;
    int line = 0, begun = 0, count = 0;
    enum { PROSE, EXAMPLE, OTHER } where = PROSE;
    char *text = (char *)vt_test_read(file, &size);
    ck_assert_msg(text != NULL, "%s cannot be read: run from the project's root", file);
    for (char *at = text, *end; *at; at = end + 1) {
        line++;
        end = strchr(at, '\n');
        ck_assert_msg(end != NULL, "%s does not end with a line end", file);
        *end = '\0';
        if (where == PROSE && begins(at, "```")) {
            where = begins(at, "```sh") && (!at[5] || at[5] == ' ') ? EXAMPLE : OTHER;
            begun = line;
            used = 0;
            if (where == EXAMPLE && at[5]) {
                ck_assert_msg(begins(at, "```sh (not run: ") && at[strlen(at) - 1] == ')' && strlen(at) > 20,
                              "%s, line %d: write ```sh, or ```sh (not run: REASON)", file, line);
                printf("%s, line %d: %s\n", file, line, at + 6);
                where = OTHER;
            }
        } else if (where != PROSE && strcmp(at, "```") == 0) {
            if (where == EXAMPLE) {
                example[used] = '\0';
                run(file, begun, example);
                count++;
            }
            where = PROSE;
        } else if (where == EXAMPLE) {
            ck_assert_msg(used + strlen(at) + 2 < sizeof example, "%s, line %d: the example is too long", file, begun);
            used += (size_t)snprintf(example + used, sizeof example - used, "%s\n", at);
        } else if (where == PROSE && begins(at, "    ")) {
            for (size_t k = 0; k < sizeof commands / sizeof commands[0]; k++)
                ck_assert_msg(!begins(at + 4, commands[k]), "%s, line %d: an example that is not between ```sh and ```",
                              file, line);
        }
    }
    ck_assert_msg(where == PROSE, "%s: the block that begins in line %d does not end", file, begun);
    free(text);
    printf("%s: %d examples run\n", file, count);
    return count;
}

START_TEST(examples_of_the_readme)
{
    ck_assert_int_ge(examples_of("README.md"), 3);
}
END_TEST

START_TEST(examples_of_the_documents)
{
    int files = 0, count = 0;
    DIR *docs = opendir("docs");
    ck_assert_ptr_nonnull(docs);
    for (struct dirent *entry; (entry = readdir(docs)) != NULL;) {
        char path[300];
        const size_t n = strlen(entry->d_name);
        if (n < 4 || strcmp(entry->d_name + n - 3, ".md") != 0)
            continue;
        snprintf(path, sizeof path, "docs/%s", entry->d_name);
        count += examples_of(path);
        files++;
    }
    closedir(docs);
    ck_assert_msg(files >= 1 && count >= 3, "%d files with %d examples", files, count);
}
END_TEST

VT_SUITE("examples", tcase_set_timeout(tc, 240.0); tcase_add_checked_fixture(tc, set_up, tear_down);
         tcase_add_test(tc, examples_of_the_readme); tcase_add_test(tc, examples_of_the_documents))
