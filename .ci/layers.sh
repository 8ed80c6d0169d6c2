#!/bin/sh
# Checks every #include of the tree against .ci/layers.txt. One line per offence; exit status 1 when there is one.
#   .ci/layers.sh [ROOT]
cd "${1:-$(dirname "$0")/..}" || exit 1

find include engine server tests -type f \
    \( -name '*.c' -o -name '*.h' -o -name '*.cc' -o -name '*.def' -o -name '*.S' \) | LC_ALL=C sort |
    awk -v table=.ci/layers.txt '
function words(text, set,    n, i, list) {
    n = split(text, list, /[ \t]+/)
    for (i = 1; i <= n; i++)
        if (list[i] != "")
            set[list[i]] = 1
}

# the longest line of the table that holds this path
function layer_of(path,    p) {
    for (p = path; p != ""; p = p ~ /\// ? substr(p, 1, match(p, /\/[^\/]*$/) - 1) : "")
        if (p in layer)
            return p
    return ""
}

function matches(header, pattern) {
    if (pattern ~ /\*$/)
        return index(header, substr(pattern, 1, length(pattern) - 1)) == 1
    return header == pattern
}

function library_of(header,    l, i, n, list) {
    for (l in library) {
        n = split(library[l], list, /[ \t]+/)
        for (i = 1; i <= n; i++)
            if (list[i] != "" && matches(header, list[i]))
                return l
    }
    return ""
}

function may_use(path, name,    i, n, list) {
    n = split(users[name], list, /[ \t]+/)
    for (i = 1; i <= n; i++)
        if (list[i] != "" && (path == list[i] || index(path, list[i] "/") == 1))
            return 1
    return 0
}

function offence(path, line, text) {
    printf "layers: %s:%d: %s\n", path, line, text
    offences++
}

function check_own(path, line, target,    from, to, file) {
    file = target ~ /^vitral\// ? "include/" target : target
    from = layer_of(path)
    to = layer_of(file)
    if (target ~ /\.c$/)
        offence(path, line, "\"" target "\" is a source file: nobody includes those")
    else if (to == "")
        offence(path, line, "\"" target "\" is not below a folder of layers.txt; paths begin at the root of the tree")
    else if (from != to && to != "include/vitral" && allowed[from] !~ /(^| )anything( |$)/ && !((from, to) in arrow))
        offence(path, line, from " may not include " to " (\"" target "\")")
    else
        return
}

function check_system(path, line, header,    l) {
    if (header in standard)
        return
    if (path ~ /^include\//) {
        offence(path, line, "<" header "> is not standard C: public headers include nothing else")
        return
    }
    l = library_of(header)
    if (l == "")
        offence(path, line, "<" header "> is in no library of layers.txt")
    else if (!may_use(path, l))
        offence(path, line, "<" header "> belongs to " l ", which may be used in: " users[l])
}

BEGIN {
    words("assert.h complex.h ctype.h errno.h float.h inttypes.h limits.h locale.h math.h setjmp.h stdalign.h " \
          "stdarg.h stdatomic.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h tgmath.h time.h wchar.h", standard)
    while ((status = (getline text < table)) > 0) {
        sub(/#.*/, "", text)
        if (text !~ /[^ \t]/)
            continue
        colon = index(text, ":")
        n = split(substr(text, 1, colon - 1), head, /[ \t]+/)
        rest = substr(text, colon + 1)
        sub(/^[ \t]+/, "", rest)
        if (colon == 0 || n != 2) {
            printf "layers: %s: cannot read \"%s\"\n", table, text
            offences++
        } else if (head[1] == "layer") {
            layer[head[2]] = 1
            allowed[head[2]] = rest
            m = split(rest, list, /[ \t]+/)
            for (i = 1; i <= m; i++)
                if (list[i] != "")
                    arrow[head[2], list[i]] = 1
        } else if (head[1] == "library")
            library[head[2]] = rest
        else if (head[1] == "use")
            users[head[2]] = rest
    }
    if (status < 0) {
        printf "layers: cannot read %s\n", table
        exit 1
    }
}

{
    path = $0
    files++
    line = 0
    if (layer_of(path) == "")
        offence(path, 1, "the file is in no folder of layers.txt")
    while ((getline text < path) > 0) {
        line++
        if (text !~ /^[ \t]*#[ \t]*include/)
            continue
        includes++
        sub(/^[ \t]*#[ \t]*include[ \t]*/, "", text)
        if (text ~ /^"[^"]*"/)
            check_own(path, line, substr(text, 2, index(substr(text, 2), "\"") - 1))
        else if (text ~ /^<[^>]*>/)
            check_system(path, line, substr(text, 2, index(text, ">") - 2))
        else
            offence(path, line, "an include that is no plain file name: " text)
    }
    close(path)
}

END {
    if (files == 0) {
        print "layers: no files found"
        exit 1
    }
    if (offences > 0) {
        printf "layers: %d offences\n", offences
        exit 1
    }
    printf "layers: %d includes of %d files point down\n", includes, files
}
'
