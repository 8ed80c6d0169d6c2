# Vitral. `make help` lists the targets. VARIANT = release (default), debug, asan, tsan, cov, fuzz.
# Programs land in build/ for the release variant and in build/<variant>/ for the others.

VARIANT ?= release
BUILD   ?= build$(if $(filter-out release,$(VARIANT)),/$(VARIANT))
ifeq ($(origin CC),default)
CC      = $(if $(filter fuzz,$(VARIANT)),clang,gcc)
endif
PREFIX  ?= /usr/local
WERROR  ?=

PKGS    = libmicrohttpd jansson libpng libjpeg libwebp libexif zlib
CSTD    = -std=c11 -D_GNU_SOURCE
WARN    = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 -Wdouble-promotion $(WERROR)
# Control-flow marks exist for x86 and, under another name, for arm64; a compiler that has neither does without.
takes   = $(shell echo 'int main(void){return 0;}' | $(CC) -Werror $(1) -x c -c -o /dev/null - 2>/dev/null && echo $(1))
HARDEN := -fstack-protector-strong -fPIE $(call takes,-fstack-clash-protection) \
          $(or $(call takes,-fcf-protection=full),$(call takes,-mbranch-protection=standard))
LDHARD  = -pie -Wl,-z,relro,-z,now,-z,noexecstack

ifeq ($(VARIANT),release)
OPT      = -O2 -g -D_FORTIFY_SOURCE=3
else ifeq ($(VARIANT),debug)
OPT      = -O0 -g -DVT_DEBUG=1
else ifeq ($(VARIANT),asan)
OPT      = -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDSAN    = -fsanitize=address,undefined
else ifeq ($(VARIANT),tsan)
OPT      = -O1 -g -fno-omit-frame-pointer -fsanitize=thread -DVT_NO_CLONES=1
LDSAN    = -fsanitize=thread
else ifeq ($(VARIANT),cov)
OPT      = -O0 -g --coverage -DVT_COVERAGE=1
LDSAN    = --coverage
else ifeq ($(VARIANT),fuzz)
OPT      = -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -Wno-pass-failed -DVT_LIBFUZZER=1
LDSAN    = -fsanitize=address,undefined
LDFUZZ   = -fsanitize=fuzzer
else
$(error VARIANT is one of release debug asan tsan cov fuzz)
endif

# Kernel files are plain loops that must become vector code. No -ffast-math, no -march=native: the same bits everywhere.
KERNEL_OPT = $(if $(filter release,$(VARIANT)),-O3) -fno-math-errno -fno-trapping-math
KERNELS    = $(wildcard engine/layers/*.c) engine/pass/fusion.c engine/explain/base/discard.c engine/explain/base/walk.c \
             engine/perturb/mask.c engine/perturb/impute.c engine/image/resize.c \
             engine/render/upsample.c engine/render/overlay.c
# Products may use fused multiply-adds: nothing relies on their last bit, which differs between CPUs in OpenBLAS as well.
FUSED       = engine/tensor/product.c engine/tensor/product64.c engine/tensor/product_bf16.c tests/bench/measure/peak.c

BLAS_CFLAGS := $(shell pkg-config --cflags openblas 2>/dev/null)
BLAS_LIBS   := $(shell pkg-config --libs openblas 2>/dev/null || echo -lopenblas)
PKG_CFLAGS  := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS    := $(shell pkg-config --libs $(PKGS) 2>/dev/null || echo -lmicrohttpd -ljansson -lpng -ljpeg -lwebp -lexif -lz)
# SECCOMP=0 builds without the filter of system calls even where libseccomp is there.
SECCOMP_LIBS := $(if $(filter 0,$(SECCOMP)),,$(shell pkg-config --libs libseccomp 2>/dev/null))

CFLAGS_ALL = $(CSTD) $(OPT) $(WARN) $(HARDEN) -I. -Iinclude -I$(BUILD)/gen $(PKG_CFLAGS) $(BLAS_CFLAGS) $(if $(SECCOMP_LIBS),-DVT_SECCOMP=1) -pthread -MMD -MP $(CFLAGS)
LDFLAGS_ALL = $(LDHARD) $(LDSAN) $(LDFLAGS)
LIBS = $(PKG_LIBS) $(SECCOMP_LIBS) $(BLAS_LIBS) -lm -pthread

ENGINE_SRC  = $(wildcard engine/*/*.c engine/*/*/*.c)
ENGINE_ASM  = $(wildcard engine/*/*.S)
SERVER_SRC  = $(wildcard server/config/*.c server/report/*.c server/sandbox/*.c server/wire/*.c server/work/*.c server/http/*.c server/routes/*.c)
SERVER_ASM  = $(wildcard server/*/*.S)
CLI_SRC     = $(filter-out server/cli/vitral.c,$(wildcard server/cli/*.c))
SUPPORT_SRC = $(wildcard tests/support/*.c)
TEST_DIRS   = unit grad golden http faults cli deploy
TEST_SRC    = $(foreach d,$(TEST_DIRS),$(wildcard tests/$(d)/check_*.c))
TOOL_SRC    = $(wildcard tests/tools/*.c)
TOOL_LIB    = $(wildcard tests/tools/*/*.c)
BENCH_SRC   = $(wildcard tests/bench/*.c)
BENCH_LIB   = $(wildcard tests/bench/*/*.c)
FUZZ_SRC    = $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_DRIVER = tests/fuzz/replay.c

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter %.c,$(1))) $(patsubst %.S,$(BUILD)/obj/%.o,$(filter %.S,$(1)))
ENGINE_OBJ  = $(call obj,$(ENGINE_SRC) $(ENGINE_ASM))
SERVER_OBJ  = $(call obj,$(SERVER_SRC) $(SERVER_ASM))
CLI_OBJ     = $(call obj,$(CLI_SRC))
SUPPORT_OBJ = $(call obj,$(SUPPORT_SRC))
TEST_BIN    = $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))
TOOL_BIN    = $(patsubst tests/%.c,$(BUILD)/tests/%,$(TOOL_SRC))
BENCH_BIN   = $(patsubst tests/%.c,$(BUILD)/tests/%,$(BENCH_SRC))
FUZZ_BIN    = $(patsubst tests/%.c,$(BUILD)/tests/%,$(FUZZ_SRC))

LIBVITRAL = $(BUILD)/libvitral.a
LIBSERVER = $(BUILD)/libvitral-server.a

.PHONY: all
all: $(BUILD)/vitrald $(BUILD)/vitral

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(if $(filter $<,$(KERNELS) $(FUSED)),$(KERNEL_OPT)) $(if $(filter $<,$(FUSED)),-ffp-contract=fast) -c -o $@ $<

# .incbin names its files itself; -MMD cannot see them
$(BUILD)/obj/engine/model/builtin.o: $(wildcard models/default/*)
$(BUILD)/obj/server/http/assets.o: $(wildcard static/* static/*/*) openapi.yaml
$(BUILD)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -c -o $@ $<

openapi.yaml:

$(LIBVITRAL): $(ENGINE_OBJ)
	@rm -f $@ && ar rcs $@ $^
$(LIBSERVER): $(SERVER_OBJ) $(CLI_OBJ)
	@rm -f $@ && ar rcs $@ $^

$(BUILD)/vitrald: $(BUILD)/obj/server/vitrald.o $(LIBSERVER) $(LIBVITRAL)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
# the command line never links libmicrohttpd
$(BUILD)/vitral: $(BUILD)/obj/server/cli/vitral.o $(CLI_OBJ) $(call obj,$(wildcard server/config/*.c server/wire/*.c)) $(LIBVITRAL)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(filter-out -lmicrohttpd -lseccomp,$(LIBS))

# the driver: libFuzzer in its variant, else a plain main
$(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(if $(LDFUZZ),,$(call obj,$(FUZZ_DRIVER))) $(LIBSERVER) $(LIBVITRAL)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) $(LDFUZZ) -o $@ $^ $(LIBS)
$(TOOL_BIN): $(call obj,$(TOOL_LIB))
$(BUILD)/tests/tools/%: $(BUILD)/obj/tests/tools/%.o $(LIBSERVER) $(LIBVITRAL)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
$(BUILD)/tests/bench/bench: $(call obj,$(BENCH_LIB))
# It runs before a sanitizer is ready, so it is never instrumented itself.
$(filter $(BUILD)/tests/faults/%,$(TEST_BIN)): $(BUILD)/obj/tests/faults/interpose.o
$(BUILD)/obj/tests/faults/interpose.o: OPT := $(filter-out -fsanitize=% -fno-sanitize%,$(OPT)) $(if $(filter asan tsan,$(VARIANT)),-DVT_SANITIZED=1)
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(SUPPORT_OBJ) $(LIBSERVER) $(LIBVITRAL)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ -lcheck -lsubunit -lrt $(LIBS)
.SECONDARY:

# ---- running and testing ----
.PHONY: run test test-unit test-grad test-golden test-http test-cli test-deploy test-browser tools bench fuzz fuzz-replay
run: all
	$(BUILD)/vitrald --listen 127.0.0.1:8080

test: all tools
	@VITRAL_BUILD=$(BUILD) tests/run.sh $(BUILD) $(TEST_DIRS)
define TEST_ONE
test-$(1): all tools $(filter $(BUILD)/tests/$(1)/%,$(TEST_BIN))
	@VITRAL_BUILD=$(BUILD) tests/run.sh $(BUILD) $(1)
endef
$(foreach d,$(TEST_DIRS),$(eval $(call TEST_ONE,$(d))))
test: $(TEST_BIN)
test-browser: all
	node tests/browser/check_page.mjs $(BUILD)
tools: $(TOOL_BIN)
# BENCH_MODEL=DIR BENCH_PICTURE=FILE, and what tests/bench/bench.c reads from the environment
bench: all $(BENCH_BIN)
	@VITRAL_BUILD=$(BUILD) $(BUILD)/tests/bench/bench $(BENCH_MODEL) $(BENCH_PICTURE)
fuzz-replay: $(FUZZ_BIN)
	@VITRAL_BUILD=$(BUILD) tests/fuzz/replay.sh $(BUILD)
# VARIANT=fuzz only. FUZZ_TARGETS="png jpeg", FUZZ_SECONDS=600, FUZZ_RUNS=1000000: what each gets, whichever ends first
fuzz: $(FUZZ_BIN)
	@tests/fuzz/run.sh $(BUILD) $(FUZZ_TARGETS)

# ---- checks of the tree ----
# gcc's own analyser; what it says wrongly is explained where .ci/analyze.sh leaves it out
.PHONY: analyze coverage
analyze:
	@CC=$(CC) .ci/analyze.sh
# the whole suite once, counted by line; test data as for `make test`
coverage:
	@.ci/coverage.sh

.PHONY: layers headers format format-check lint instructions openapi openapi-check duplicates check-long
layers:
	@.ci/layers.sh
headers:
	@mkdir -p $(BUILD)
	@for h in include/vitral/*.h; do \
	  printf '#include "vitral/%s"\nextern int vt_unused;\n' "$$(basename $$h)" > $(BUILD)/header_test.c || exit 1; \
	  $(CC) $(CSTD) $(WARN) -Werror -Iinclude -fsyntax-only $(BUILD)/header_test.c || exit 1; \
	  $(or $(CXX),g++) -std=c++11 -Wall -Wextra -Werror -Iinclude -fsyntax-only -x c++ $(BUILD)/header_test.c || exit 1; \
	done; echo "headers: each public header compiles alone, C11 and C++11"
FORMATTED = $(shell git ls-files '*.c' '*.h')
format:
	clang-format -i $(FORMATTED)
format-check:
	clang-format --dry-run --Werror $(FORMATTED)
lint:
	@.ci/lint.sh
instructions:
	@[ $(VARIANT) = release ] || { echo 'instructions: the numbers are those of the release build' >&2; exit 2; }
	@BUILD=$(BUILD) CC=$(CC) .ci/instructions.sh
openapi: $(BUILD)/vitral
	$(BUILD)/vitral openapi --update openapi.yaml
openapi-check: $(BUILD)/vitral
	$(BUILD)/vitral openapi --check openapi.yaml
check-long:
	@.ci/check-long

# ---- installing ----
VERSION := $(shell sed -n 's/.*VT_VERSION "\(.*\)"/\1/p' include/vitral/version.h)
.PHONY: install deb docker man sbom clean help
man: $(BUILD)/man/vitrald.8 $(BUILD)/man/vitral.1
$(BUILD)/man/%.8 $(BUILD)/man/%.1: $(BUILD)/vitral
	@mkdir -p $(@D)
	$(BUILD)/vitral man $(basename $(@F)) >$@.new && mv $@.new $@
deb: all man
	deploy/deb/build.sh $(BUILD)
# CycloneDX: the libraries that the programs load, and the built-in model
sbom: all
	deploy/sbom.sh $(BUILD) >$(BUILD)/vitral.cdx.json
docker:
	docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) -t vitral:$(VERSION) -t vitral .
install: all man
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/vitral
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 644 $(BUILD)/man/vitral.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 644 $(BUILD)/man/vitrald.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 755 $(BUILD)/vitrald $(BUILD)/vitral $(DESTDIR)$(PREFIX)/bin/
	install -m 644 README.md LICENSE openapi.yaml models/default/CARD.md $(DESTDIR)$(PREFIX)/share/doc/vitral/
clean:
	rm -rf build
help:
	@echo 'make                 build/vitrald and build/vitral'
	@echo 'make run             start the server on 127.0.0.1:8080 with the embedded model'
	@echo 'make test            all tests (test-unit test-grad test-golden test-http test-cli: a part)'
	@echo 'make test-browser    the page in headless Chromium (needs node and chromium)'
	@echo 'make install         DESTDIR= and PREFIX=/usr/local'
	@echo 'make deb, docker     a Debian package in build/, a container image'
	@echo 'make sbom            build/vitral.cdx.json: libraries and versions as CycloneDX'
	@echo 'make VARIANT=debug   also asan, tsan, cov, fuzz; goes to build/<variant>/'
	@echo 'make bench           one table of what everything takes, beside bare products and others (docs/performance.md)'
	@echo 'make instructions    counts what the hot paths execute; more than 5 % above the stored numbers fails'
	@echo 'make layers headers format-check lint openapi-check fuzz-replay   what CI checks beside the tests'
	@echo 'make VARIANT=fuzz fuzz   libFuzzer over each target (docs/reliability.md)'
	@echo 'make analyze         gcc -fanalyzer over engine and server'
	@echo 'make coverage        the whole suite with counters: lines of engine and server that tests reach'
	@echo 'make openapi         rewrite the generated blocks of openapi.yaml'
	@echo 'make check-long      what takes too long for CI'
	@echo 'make clean'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
