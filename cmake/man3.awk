# SPDX-License-Identifier: MIT
# Manual pages of the library, made from include/hearth.h:
#
#   awk -v out=FOLDER -v example=examples/hello.c -f cmake/man3.awk include/hearth.h
#
# The comment at the top of the header becomes hearth.3, which ends with the example. Each section ("// ---- title") becomes a page, named after
# its first function that opens something, or else its first function; every other function gets an alias. Within
# a comment, "Errors: ..." and "Threads: ..." are set off, `names` become italic, and functions get their section.

function escape(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/'/, "\\(aq", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    return text
}

# A paragraph of a comment.
function prose(text,    done, name) {
    text = escape(text)
    while (match(text, /`[^`]*`/)) {
        done = done substr(text, 1, RSTART - 1) "\\fI" substr(text, RSTART + 1, RLENGTH - 2) "\\fR"
        text = substr(text, RSTART + RLENGTH)
    }
    text = done text
    done = ""
    while (match(text, /hearth_[a-z0-9_]+\(\)|HEARTH_[A-Z0-9_]+/)) {
        name = substr(text, RSTART, RLENGTH)
        sub(/\(\)$/, "\\fR(3)", name)
        if (name !~ /\)$/)
            name = name "\\fR"
        done = done substr(text, 1, RSTART - 1) "\\fB" name
        text = substr(text, RSTART + RLENGTH)
    }
    text = done text
    if (text ~ /^[.]/)
        text = "\\&" text
    return text
}

function add_paragraph(text) {
    if (body != "" && body !~ /\n\.SS [^\n]*\n$/)
        body = body ".PP\n"
    body = body text
}

# Adds a comment's text to the page: paragraphs are parted by newlines, Errors and Threads are some of their own.
function add_comment(text,    n, i, parts) {
    gsub(/ Errors: /, "\nErrors: ", text)
    gsub(/ Threads: /, "\nThreads: ", text)
    n = split(text, parts, "\n")
    for (i = 1; i <= n; i++)
        if (parts[i] != "")
            add_paragraph(prose(parts[i]) "\n")
}

function code(text) {
    return ".RS 4\n.nf\n" escape(text) ".fi\n.RE\n"
}

# The name of the function in a prototype.
function function_name(text) {
    match(text, /hearth_[a-z0-9_]+\(/)
    return substr(text, RSTART, RLENGTH - 1)
}

# "struct hearth_error", "hearth_log_fn"; an enum without a name is "Constants".
function type_name(text) {
    if (match(text, /^(struct|enum) hearth_[a-z0-9_]+/))
        return substr(text, RSTART, RLENGTH)
    if (match(text, /\(\*hearth_[a-z0-9_]+/))
        return substr(text, RSTART + 2, RLENGTH - 2)
    if (match(text, /hearth_[a-z0-9_]+;/))
        return substr(text, RSTART, RLENGTH - 1)
    return "Constants"
}

function head(name, file) {
    printf ".\\\" Made by cmake/man3.awk from hearth.h.\n.TH %s 3 \"\" \"Hearth %s\" \"Hearth\"\n.nh\n.ad l\n",
        toupper(name), major "." minor "." patch > file
}

function end_page(    i, page, file, names, seen) {
    if (!n_functions)
        return
    page = functions[1]
    for (i = n_functions; i > 0; i--)
        if (functions[i] ~ /_open$/)
            page = functions[i]
    file = out "/" page ".3"
    head(page, file)
    names = page
    for (i = 1; i <= n_functions; i++) {
        if (functions[i] == page)
            continue
        names = names ", " functions[i]
        printf ".so man3/%s.3\n", page > (out "/" functions[i] ".3")
        close(out "/" functions[i] ".3")
    }
    printf ".SH NAME\n%s \\- Hearth library: %s\n", names, title > file
    printf ".SH SYNOPSIS\n.nf\n.B #include <hearth.h>\n%s.fi\n", synopsis > file
    sub(/^\n/, "", body)
    printf ".SH DESCRIPTION\n%s", body > file
    printf ".SH ERRORS\nFunctions that return a negative number have failed. Which codes there are and what they " \
        "mean is in\n.BR hearth_version (3).\n" > file
    printf ".SH SEE ALSO\n.BR hearth (3)\n" > file
    close(file)
    n_pages++
    pages[n_pages] = page
    titles[n_pages] = title
    members[n_pages] = names
    n_functions = 0
}

function overview(    i, n, file, at, paragraphs, line) {
    file = out "/hearth.3"
    head("hearth", file)
    printf ".SH NAME\nhearth \\- library that runs language models larger than memory\n" > file
    printf ".SH SYNOPSIS\n.nf\n.B #include <hearth.h>\n.PP\n" > file
    printf ".B cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs hearth)\n.fi\n.SH DESCRIPTION\n" > file
    n = split(top, paragraphs, "\n")
    sub(/^hearth\.h: the/, "The", paragraphs[1])
    for (i = 1; i <= n; i++) {
        at = match(paragraphs[i], /^[A-Z][a-z ]+\. /)
        if (at) # "Threads. A model ..."
            printf ".SS %s\n%s\n", substr(paragraphs[i], 1, RLENGTH - 2),
                prose(substr(paragraphs[i], RLENGTH + 1)) > file
        else
            printf "%s\n", prose(paragraphs[i]) > file
    }
    printf ".SH PAGES\n" > file
    for (i = 1; i <= n_pages; i++)
        printf ".TP\n.BR %s (3)\n%s: %s\n", pages[i], titles[i], members[i] > file
    printf ".SH EXAMPLES\nThe folder\n.I examples\nof the sources has small programs: a completion, text as it " \
        "comes, several sequences at once. The shortest one:\n.PP\n.EX\n" > file
    while ((getline line < example) > 0)
        if (line !~ /SPDX/)
            printf "%s\n", escape(line) > file
    close(example)
    printf ".EE\n.SH SEE ALSO\n.BR hearth (1)\n" > file
    close(file)
}

# A declaration is complete: what it is decides where it goes.
function take_declaration(    name, plain) {
    plain = declaration
    sub(/\n+$/, "\n", plain)
    if (plain ~ /^static inline/ || (plain ~ /[ *]hearth_[a-z0-9_]+\(/ && plain !~ /^typedef|\{/)) {
        sub(/^static inline /, "", plain)
        sub(/\n\{.*/, ";\n", plain)
        name = function_name(plain)
        functions[++n_functions] = name
        synopsis = synopsis ".PP\n\\fB" escape(substr(plain, 1, length(plain) - 1)) "\\fR\n"
        body = body (body == "" ? "\n" : "") ".SS " name "()\n"
        add_comment(comment)
        if (comment == "")
            add_paragraph("The defaults, as a value.\n")
    } else {
        if (plain ~ /[{(]|^typedef/) # not struct NAME; alone
            body = body (body == "" ? "\n" : "") ".SS " type_name(plain) "\n"
        add_comment(comment)
        if (plain ~ /[{(]|^typedef/)
            add_paragraph(code(plain))
    }
    comment = declaration = ""
}

/^#define HEARTH_VERSION_MAJOR/ { major = $3 }
/^#define HEARTH_VERSION_MINOR/ { minor = $3 }
/^#define HEARTH_VERSION_PATCH/ { patch = $3 }
/^#ifndef HEARTH_H/ { top = comment; comment = "" }
/SPDX-License/ || /^extern "C"/ || (/^}$/ && declaration == "") { next }

/^#/ { if (declaration == "") next }

/^\/\/ ----/ {
    end_page()
    comment = synopsis = body = ""
    title = $0
    sub(/^\/\/ -+ /, "", title)
    sub(/ -+$/, "", title)
    next
}

/^\/\// && declaration == "" {
    line = $0
    sub(/^\/\/ ?/, "", line)
    if (line == "")
        comment = comment "\n"
    else
        comment = comment (comment == "" || comment ~ /\n$/ ? "" : " ") line
    next
}

/^$/ && declaration == "" {
    if (comment != "" && title != "")
        add_comment(comment)
    if (title != "")
        comment = ""
    next
}

title != "" {
    declaration = declaration $0 "\n"
    if (declaration ~ /^static inline/ ? $0 == "}" : ($0 ~ /^[^ ].*;( \/\/.*)?$/ || $0 == "};" || $0 ~ /^ +.*\);$/ && declaration !~ /\{\n/))
        take_declaration()
}

END {
    end_page()
    overview()
}
