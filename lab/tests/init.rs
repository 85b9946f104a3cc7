//! Tests `refdb-lab init` on generated projects of each kind, with real builds.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

mod common;

use std::{fs, path::Path, process::Command};

use common::{Synthetic, finish};
use refdb_lab::scenario::Scenario;

/// A program that computes for some milliseconds, or as long as its argument says.
const PROGRAM: &str = "#include <stdlib.h>\nint main(int count, char **words) {\n  \
    volatile long sum = 0;\n  long rounds = count > 1 && atol(words[1]) ? atol(words[1]) : 10;\n  \
    for (long i = 0; i < rounds * 100000; i++) sum += i;\n  return 0;\n}\n";

/// Creates a project of these files.
fn project(files: &[(&str, &str)]) -> Synthetic {
    let planted = Synthetic::new("true", "");
    for (name, content) in files {
        let file = planted.repository().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, content).unwrap();
    }
    planted.commit_all("a project");
    planted
}

/// Runs `init` with these options. Returns what it says, and the path of the scenario.
fn init(planted: &Synthetic, options: &[&str]) -> (Result<String, String>, std::path::PathBuf) {
    let file = planted.scenario().with_file_name("my first.toml");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.arg("init").arg(planted.repository()).arg("--output").arg(&file).arg("--cache").arg(planted.cache());
    let output = finish(lab.args(options));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }, file)
}

/// Checks that `init` writes a scenario and says which steps it can find; then compares two revisions with it.
fn works(planted: &Synthetic, kind: &str, options: &[&str]) -> String {
    let (said, file) = init(planted, options);
    let said = said.unwrap();
    assert!(said.contains(&format!(" of a {kind} project\n")), "{said}");
    assert!(said.contains(" ms a run; two equal runs differ by "), "{said}");
    assert!(said.contains("  it can find a step of ") || said.contains("  it cannot find a step of "), "{said}");
    let next = format!("\ncompare two revisions: refdb-lab run '{}' --revisions REPO A,B\n", file.display());
    assert!(said.ends_with(&next), "{said}");
    planted.commit("other", "nothing that costs");
    let mut lab = Command::new(env!("CARGO_BIN_EXE_refdb-lab"));
    lab.arg("run").arg(&file).arg("--revisions").arg(planted.repository()).arg("HEAD~1,HEAD");
    let output = finish(lab.args(["--runs-max", "10", "--false-alarms", "0.2", "--cache"]).arg(planted.cache()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn a_make_project_gets_a_scenario_with_a_parameter() {
    let planted = project(&[("tool.c", PROGRAM), ("Makefile", "all: tool\n"), ("script.sh", "#!/bin/sh\n")]);
    let command = "\"$BUILD/bin/tool\" $rounds";
    let said = works(&planted, "make", &["--command", command, "--parameter-list", "rounds", "20,60"]);
    assert!(said.contains("\nrounds = 20: ") && said.contains("\nrounds = 60: "), "{said}");
    let (again, file) = init(&planted, &[]);
    assert!(again.unwrap_err().contains("first.toml' exists: name another file with --output"));
    let scenario = Scenario::find(file.to_str().unwrap()).unwrap();
    assert_eq!((scenario.command.as_str(), scenario.combinations().len()), (command, 2));
}

#[test]
fn a_cmake_project_gets_a_scenario() {
    if !Path::new("/usr/bin/cmake").exists() {
        return;
    }
    let lists = "cmake_minimum_required(VERSION 3.13)\nproject(tool C)\nadd_executable(tool tool.c)\n";
    let planted = project(&[("tool.c", PROGRAM), ("CMakeLists.txt", lists)]);
    let said = works(&planted, "CMake", &[]);
    assert!(said.contains("' times \"$BUILD/bin/tool\" --version of a CMake project"), "{said}");
}

#[test]
fn a_cargo_project_gets_a_scenario() {
    let manifest = "[package]\nname = \"tool\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let main = "fn main() { if std::env::args().nth(1).as_deref() == Some(\"--version\") { std::process::exit(2) } }\n";
    let planted = project(&[("Cargo.toml", manifest), ("src/main.rs", main), (".gitignore", "target\n")]);
    let said = works(&planted, "cargo", &[]);
    assert!(said.contains("' times \"$BUILD/bin/tool\" --help of a cargo project"), "--version fails: {said}");
    assert!(said.contains("\nthis is only the start of a program: set 'command' "), "{said}");
}

#[test]
fn a_project_that_does_not_build_leaves_a_scenario_to_correct_and_other_folders_none() {
    let planted = project(&[("tool.c", "int x\n"), ("Makefile", "all: tool\n")]);
    let (said, file) = init(&planted, &[]);
    let said = said.unwrap_err();
    assert!(
        said.contains("HEAD does not build: tool.c:") && said.contains("first.toml': correct its 'build'"),
        "{said}"
    );
    Scenario::find(file.to_str().unwrap()).unwrap();
    let (said, file) = init(&project(&[("README", "")]), &[]);
    assert!(said.unwrap_err().contains("has none of Cargo.toml, CMakeLists.txt, "));
    assert!(!file.exists());
    let (said, file) = init(&project(&[("Makefile", "all:\n\ttrue\n")]), &[]);
    assert!(said.unwrap_err().contains("the make build makes no program: name a command with --command"));
    assert!(!file.exists());
}
