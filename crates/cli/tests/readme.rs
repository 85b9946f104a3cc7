//! The README's commands print the output that it shows. Its Rust code is that of the crate's own page, which is
//! compiled and run.

use refdb_testkit::{Git, RefFormat, Repo};
use std::{env, path::Path};

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the first block of the page that begins with `fence`.
fn block<'p>(page: &'p str, fence: &str) -> Vec<&'p str> {
    page.lines().skip_while(|line| *line != fence).skip(1).take_while(|line| *line != "```").collect()
}

#[test]
fn the_commands_print_what_the_readme_shows() {
    let repo = Repo::bare(RefFormat::Reftable, refdb::HashKind::Sha1);
    repo.create_refs([("refs/heads/main", repo.commit())]);
    let page = page("README.md");
    let lines = block(&page[page.find("## Use").expect("the section")..], "```");
    let folders =
        [Path::new(env!("CARGO_BIN_EXE_refdb")), Git::find().program()].map(|program| program.parent().unwrap());
    let path =
        env::join_paths(folders.into_iter().map(Path::to_owned).chain(env::split_paths(&env::var_os("PATH").unwrap())));
    let mut rest = lines.as_slice();
    let mut commands = 0;
    while let Some((command, after)) = rest.split_first() {
        let command = command.strip_prefix("$ ").expect("a command");
        let end = after.iter().position(|line| line.starts_with("$ ")).unwrap_or(after.len());
        let (shown, following) = after.split_at(end);
        let mut shell = repo.command("sh");
        let output = shell.env("PATH", path.as_ref().unwrap()).args(["-c", command]).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let printed: Vec<&str> = printed.lines().collect();
        match shown.strip_suffix(&["  ..."]) {
            Some(begin) => assert_eq!(printed[..begin.len()], *begin, "{command}"),
            None => assert_eq!(printed, shown, "{command}"),
        }
        (rest, commands) = (following, commands + 1);
    }
    assert_eq!(commands, 2);
}

#[test]
fn the_rust_of_the_readme_is_tested_in_the_crates_own() {
    let (page, tested) = (page("README.md"), page("crates/refdb/README.md"));
    let (shown, tested) = (block(&page, "```rust"), block(&tested, "```rust"));
    assert!(shown.len() > 5);
    for line in shown {
        let line = line.replace("\"repo.git\"", "path");
        assert!(tested.contains(&line.as_str()), "crates/refdb/README.md has no line {line:?}");
    }
}
