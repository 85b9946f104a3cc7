//! Tests what the lab says of builds that fail because something is not installed, with real compilers, and that its
//! own scenarios ask for little.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::fs;

use common::{Synthetic, finish};
use refdb_lab::scenario::Scenario;

/// Returns what the lab says about a build with these lines, and the number of attempts.
fn complaint(lines: &str) -> (String, usize) {
    let planted = Synthetic::new("true", "");
    let tries = planted.folder_of_luck().join("tries");
    planted.build_more(&format!("echo x >>'{}'\n{lines}\n", tries.display()));
    let a = planted.commit("program.c", "#include <zlib.h>\nint main(void) { return 0; }\n");
    let b = planted.commit("other", "");
    let said = planted.complaint("run", &format!("{a},{b}"), &[]);
    (said, fs::read_to_string(tries).unwrap().lines().count())
}

#[test]
fn a_missing_header_ends_with_the_words_of_the_compiler_and_what_to_install_and_without_another_attempt() {
    let (said, tries) = complaint("gcc -nostdinc -I. -c program.c || { echo 'make: *** [x.o] Error 1' >&2; exit 2; }");
    let wanted = "does not build: program.c:1:10: fatal error: zlib.h: No such file or directory (on Debian, 'apt \
                  install zlib1g-dev' installs zlib.h; exit status: 2; all of it is in '";
    assert!(said.contains(wanted), "{said}");
    assert_eq!(tries, 1);
}

#[test]
fn a_missing_tool_is_named_with_its_package_and_other_failures_are_tried_once_more() {
    let (said, tries) = complaint("PATH=/nonexistent cmake .");
    assert!(said.contains("'apt install cmake' installs cmake"), "{said}");
    assert_eq!(tries, 1);
    let (said, tries) = complaint("echo 'int x' >bad.c; gcc -c bad.c || { echo 'make: *** [bad.o]' >&2; exit 2; }");
    assert!(said.contains("does not build: bad.c:1:") && said.contains(" error: expected"), "{said}");
    assert_eq!(tries, 2);
}

#[test]
fn a_build_finds_its_own_repository_although_a_hook_of_another_one_runs_the_lab() {
    let planted = Synthetic::new("true", "");
    planted.build_more("test \"$(git rev-parse HEAD)\" = \"$(basename \"${PWD%/tree}\" | cut -c1-40)\"\n");
    let (a, b) = (planted.commit("one", ""), planted.commit("two", ""));
    let output = finish(planted.command("run", &format!("{a},{b}"), &[]).env("GIT_DIR", "/nonexistent"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A scenario that builds more of git than it runs would fail where curl or OpenSSL is not installed.
#[test]
fn the_shipped_scenarios_build_git_without_what_they_never_run() {
    for name in ["receive", "fetch", "jobs"] {
        let build = Scenario::find(name).unwrap().build;
        for option in ["CURL", "EXPAT", "OPENSSL", "GETTEXT", "PERL", "PYTHON", "RUST", "TCLTK"] {
            assert!(build.contains(&format!(" NO_{option}=1")), "{name} builds with {option}");
        }
        assert!(build.contains("\" git\n") && !build.contains(" install\n"), "{name} builds more than git");
    }
}
