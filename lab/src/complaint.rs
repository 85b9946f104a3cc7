//! Finds in the output of a failed build the line that says what is wrong, and what to install if something is missing.

/// Why a build failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The line of the output that says why.
    pub line: String,
    /// The header, tool or library that is missing on this machine, if that is the reason.
    pub missing: Option<Missing>,
}

/// Something that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    name: String,
    /// The Debian package that has it, if that is known.
    package: Option<&'static str>,
}

impl Missing {
    fn header(name: &str) -> Missing {
        let of = |(start, package): &(&str, &'static str)| name.starts_with(start).then_some(*package);
        Missing { name: name.to_owned(), package: HEADERS.iter().find_map(of) }
    }

    fn tool(name: &str) -> Missing {
        // Tools may be called by their paths.
        let name = name.rsplit('/').next().unwrap_or(name);
        Missing { name: name.to_owned(), package: known(&TOOLS, name) }
    }

    fn library(name: &str) -> Missing {
        Missing { name: format!("lib{name}"), package: known(&LIBRARIES, name) }
    }

    /// Returns whether another attempt would, by the name of what is missing, fail in the same way. A header of an
    /// unknown name may be one that the build itself generates, and that was late.
    pub fn is_certain(&self) -> bool {
        self.package.is_some()
    }

    /// Returns an instruction: what to install, or how to find out.
    pub fn advice(&self) -> String {
        let name = &self.name;
        match self.package {
            Some(package) => format!("on Debian, 'apt install {package}' installs {name}"),
            None => format!("if {name} is to be installed, 'apt-file search {name}' names its package on Debian"),
        }
    }
}

fn known(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, package)| *package)
}

/// The beginnings of the paths of headers, and the Debian packages that have them.
const HEADERS: [(&str, &str); 30] = [
    ("zlib.h", "zlib1g-dev"),
    ("curl/", "libcurl4-openssl-dev"),
    ("openssl/", "libssl-dev"),
    ("expat.h", "libexpat1-dev"),
    ("pcre2.h", "libpcre2-dev"),
    ("zstd.h", "libzstd-dev"),
    ("lzma.h", "liblzma-dev"),
    ("lz4", "liblz4-dev"),
    ("bzlib.h", "libbz2-dev"),
    ("sqlite3.h", "libsqlite3-dev"),
    ("ncurses", "libncurses-dev"),
    ("curses.h", "libncurses-dev"),
    ("readline/", "libreadline-dev"),
    ("uuid/", "uuid-dev"),
    ("ffi.h", "libffi-dev"),
    ("yaml.h", "libyaml-dev"),
    ("gmp.h", "libgmp-dev"),
    ("event2/", "libevent-dev"),
    ("uv.h", "libuv1-dev"),
    ("jemalloc/", "libjemalloc-dev"),
    ("boost/", "libboost-dev"),
    ("Python.h", "python3-dev"),
    ("libxml/", "libxml2-dev"),
    ("png.h", "libpng-dev"),
    ("jpeglib.h", "libjpeg-dev"),
    ("linux/", "linux-libc-dev"),
    ("asm/", "linux-libc-dev"),
    ("std", "libc6-dev"),
    ("sys/", "libc6-dev"),
    ("unistd.h", "libc6-dev"),
];

/// The names of tools, and the Debian packages that have them.
const TOOLS: [(&str, &str); 25] = [
    ("make", "make"),
    ("gmake", "make"),
    ("cc", "gcc"),
    ("gcc", "gcc"),
    ("c++", "g++"),
    ("g++", "g++"),
    ("clang", "clang"),
    ("ld", "binutils"),
    ("ar", "binutils"),
    ("cmake", "cmake"),
    ("ninja", "ninja-build"),
    ("meson", "meson"),
    ("cargo", "cargo"),
    ("rustc", "rustc"),
    ("autoreconf", "autoconf"),
    ("automake", "automake"),
    ("libtoolize", "libtool"),
    ("pkg-config", "pkg-config"),
    ("msgfmt", "gettext"),
    ("bison", "bison"),
    ("flex", "flex"),
    ("perl", "perl"),
    ("python3", "python3"),
    ("protoc", "protobuf-compiler"),
    ("nasm", "nasm"),
];

/// The names of libraries as the linker has them, and the Debian packages with what a build needs of them.
const LIBRARIES: [(&str, &str); 10] = [
    ("z", "zlib1g-dev"),
    ("curl", "libcurl4-openssl-dev"),
    ("ssl", "libssl-dev"),
    ("crypto", "libssl-dev"),
    ("expat", "libexpat1-dev"),
    ("pcre2-8", "libpcre2-dev"),
    ("zstd", "libzstd-dev"),
    ("lzma", "liblzma-dev"),
    ("bz2", "libbz2-dev"),
    ("sqlite3", "libsqlite3-dev"),
];

/// Returns what the output of a failed build says: the first missing header, tool or library, or else the first line
/// that looks like an error, or else the last line.
pub fn of(log: &str) -> Complaint {
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    if let Some((line, missing)) = lines().find_map(|line| Some((line, missing(line)?))) {
        return Complaint { line: cut(line), missing: Some(missing) };
    }
    let is_error = |line: &&str| {
        let marks = [": error: ", ": fatal error: ", ": undefined reference to ", "CMake Error"];
        marks.iter().any(|mark| line.contains(mark)) || line.starts_with("error: ") || line.starts_with("error[")
    };
    let line = lines().find(is_error).or_else(|| lines().next_back()).unwrap_or("it said nothing");
    Complaint { line: cut(line), missing: None }
}

/// Maximum number of characters of a line that are shown.
const LINE_MAX: usize = 300;

fn cut(line: &str) -> String {
    line.char_indices().nth(LINE_MAX).map_or_else(|| line.to_owned(), |(end, _)| format!("{}...", &line[..end]))
}

/// Returns what a line says is missing on the machine.
fn missing(line: &str) -> Option<Missing> {
    if let Some((_, rest)) = line.split_once("fatal error: ") {
        // The words of gcc, and those of clang, which puts the name in quotation marks.
        let gcc = rest.strip_suffix(": No such file or directory");
        let clang = rest.strip_prefix('\'').and_then(|rest| rest.strip_suffix("' file not found"));
        return gcc.or(clang).filter(|name| is_name(name)).map(Missing::header);
    }
    if let Some((_, name)) = line.split_once("cannot find -l") {
        let name = name.split(':').next().unwrap_or(name);
        return is_name(name).then(|| Missing::library(name));
    }
    if let Some(rest) = line.strip_prefix("error: linker `") {
        return rest.strip_suffix("` not found").filter(|name| is_name(name)).map(Missing::tool);
    }
    let shell =
        || Some(line.strip_suffix(": not found").or(line.strip_suffix(": command not found"))?.rsplit(": ").next());
    let make = || Some(line.strip_prefix("make: ")?.strip_suffix(": No such file or directory"));
    shell().or_else(make)?.filter(|name| is_name(name)).map(Missing::tool)
}

/// Returns whether a text can be the name of a header, tool or library, which is put into an instruction.
fn is_name(text: &str) -> bool {
    let known = |letter: char| letter.is_ascii_alphanumeric() || "._-+/".contains(letter);
    !text.is_empty() && text.len() <= 100 && !text.starts_with('-') && text.chars().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advice(log: &str) -> String {
        of(log).missing.map_or_else(String::new, |missing| missing.advice())
    }

    #[test]
    fn a_missing_header_is_found_though_make_has_the_last_word() {
        let line = "git-compat-util.h:12:10: fatal error: zlib.h: No such file or directory";
        let log = format!("    CC x.o\n{line}\ncompilation terminated.\nmake: *** [Makefile:2843: x.o] Error 1\n");
        assert_eq!(of(&log).line, line);
        assert_eq!(advice(&log), "on Debian, 'apt install zlib1g-dev' installs zlib.h");
        let clang = "a.c:1:10: fatal error: 'curl/curl.h' file not found";
        assert_eq!(advice(clang), "on Debian, 'apt install libcurl4-openssl-dev' installs curl/curl.h");
        let rare = "a.c:1:10: fatal error: rare/thing.h: No such file or directory";
        assert!(advice(rare).contains("'apt-file search rare/thing.h' names its package"), "{}", advice(rare));
        let certain = |line: &str| of(line).missing.unwrap().is_certain();
        assert!(certain(line) && !certain(rare));
    }

    #[test]
    fn missing_tools_and_libraries_are_found_in_the_words_of_each_program() {
        for (line, package) in [
            ("sh: 1: make: not found", "make"),
            ("sh: line 1: cmake: command not found", "cmake"),
            ("/bin/sh: 1: msgfmt: not found", "gettext"),
            ("make: cc: No such file or directory", "gcc"),
            ("error: linker `cc` not found", "gcc"),
            ("/usr/bin/ld: cannot find -lz: No such file or directory", "zlib1g-dev"),
            ("/usr/bin/ld: cannot find -lssl", "libssl-dev"),
        ] {
            assert!(advice(line).contains(&format!("'apt install {package}'")), "{line}: {}", advice(line));
        }
    }

    #[test]
    fn other_failures_are_the_first_error_or_the_last_line_and_ask_for_nothing() {
        let log = "CC x.o\nx.c:3:1: error: expected ';'\nmake: *** [Makefile:1: x.o] Error 1\n";
        assert_eq!(of(log), Complaint { line: "x.c:3:1: error: expected ';'".to_owned(), missing: None });
        assert_eq!(of("one\nno rule to make it\n\n").line, "no rule to make it");
        assert_eq!(of("").line, "it said nothing");
        assert_eq!(of("HTTP: 404: not found $(reboot): not found").missing, None, "not a name");
        assert_eq!(of(&"é".repeat(1000)).line.chars().count(), LINE_MAX + 3);
    }
}
