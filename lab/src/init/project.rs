//! Recognizes how a project is built, and writes a scenario for it.

use std::{fmt::Write, path::Path};

use anyhow::{Context, Result, bail};

/// The build systems that are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// cargo, which `Cargo.toml` shows.
    Cargo,
    /// `CMake`, which `CMakeLists.txt` shows.
    CMake,
    /// make, which `Makefile`, `makefile` or `GNUmakefile` shows.
    Make,
}

/// The files that show the kind of a project. A project with several is built by the first.
const FILES: [(&str, Kind); 5] = [
    ("Cargo.toml", Kind::Cargo),
    ("CMakeLists.txt", Kind::CMake),
    ("GNUmakefile", Kind::Make),
    ("makefile", Kind::Make),
    ("Makefile", Kind::Make),
];

/// Builds with the symbols that show in which functions time is spent, and into the worktree, whatever target folder
/// the caller's environment names.
const CARGO: &str = "export CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_TARGET_DIR=\"$PWD/target\"\n\
                     cargo build --quiet --release --bins\n";
const CMAKE: &str = "cmake -S . -B lab-build -DCMAKE_BUILD_TYPE=RelWithDebInfo\n\
                     cmake --build lab-build --parallel \"$(nproc)\"\n";
const MAKE: &str = "make -j\"$(nproc)\"\n";

impl Kind {
    /// Returns the kind of the project in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if there is no file of a known build system.
    pub fn of(folder: &Path) -> Result<Kind> {
        let found = FILES.iter().find(|(file, _)| folder.join(file).is_file());
        found.map(|(_, kind)| *kind).with_context(|| {
            let files = FILES.map(|(file, _)| file).join(", ");
            format!("'{}' has none of {files}: write a scenario by hand, as docs/lab.md says", folder.display())
        })
    }

    /// Returns the name of the build system.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Cargo => "cargo",
            Kind::CMake => "CMake",
            Kind::Make => "make",
        }
    }

    fn build(self) -> &'static str {
        match self {
            Kind::Cargo => CARGO,
            Kind::CMake => CMAKE,
            Kind::Make => MAKE,
        }
    }

    /// Returns the arguments of `find` that lead to the programs of the build: a folder, and what to skip in it.
    fn programs(self) -> &'static str {
        match self {
            Kind::Cargo => "target/release -maxdepth 1",
            Kind::CMake => "lab-build -name CMakeFiles -prune -o",
            Kind::Make => ". -name .git -prune -o",
        }
    }

    /// Returns the program that is called like the project's folder, or else the first in order of names, where
    /// `programs` are those that the build left.
    ///
    /// # Errors
    ///
    /// Fails if there are no programs.
    pub fn main_program(self, repository: &Path, mut programs: Vec<String>) -> Result<String> {
        programs.sort();
        let folder = repository.canonicalize().unwrap_or_default();
        let project = folder.file_name().unwrap_or_default().to_string_lossy();
        let same = programs.iter().find(|program| **program == project);
        match same.or_else(|| programs.first()) {
            Some(program) => Ok(program.clone()),
            None => bail!("the {} build makes no program: name a command with --command", self.name()),
        }
    }
}

const FIRST: &str = include_str!("first.toml");

/// Returns the text of a scenario that copies the compiled programs of the build to `$BUILD/bin`.
pub fn text(kind: Kind, command: &str, parameters: &[(&str, Vec<String>)]) -> String {
    let mut text = FIRST
        .replace("@KIND@", kind.name())
        .replace("@BUILD@", kind.build())
        .replace("@PROGRAMS@", kind.programs())
        .replace("@COMMAND@", &quoted(command));
    if !parameters.is_empty() {
        text += "\n# Each combination is compared, and the command sees the value as $NAME.\n[parameters]\n";
    }
    for (name, values) in parameters {
        let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
        _ = writeln!(text, "{name} = [{}]", values.join(", "));
    }
    text
}

/// Encodes a string for TOML: as it is if possible, and otherwise with the escapes of JSON, which TOML has too.
fn quoted(text: &str) -> String {
    if !text.contains('\'') && !text.contains(char::is_control) {
        return format!("'{text}'");
    }
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    #[test]
    fn the_scenario_has_the_command_and_the_parameters_whatever_is_in_them() {
        for command in ["\"$BUILD/bin/x\" --version", "echo '''it\\n''' \"\u{7}\u{7f}\"", "a\nb"] {
            for kind in [Kind::Cargo, Kind::CMake, Kind::Make] {
                let text = text(kind, command, &[("size", ["1", "it's \"2\""].map(str::to_owned).to_vec())]);
                let scenario = Scenario::parse("x", &text).unwrap();
                assert_eq!(scenario.command, command, "{text}");
                assert_eq!(scenario.parameters["size"], ["1", "it's \"2\""]);
            }
        }
    }

    #[test]
    fn the_program_that_is_called_like_the_project_is_the_main_one() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("tool");
        std::fs::create_dir(&project).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let main = |programs: &[&str]| Kind::Make.main_program(&project, names(programs));
        assert_eq!(main(&["bench", "tool"]).unwrap(), "tool");
        assert_eq!(main(&["b", "a"]).unwrap(), "a");
        assert!(main(&[]).unwrap_err().to_string().contains("makes no program"));
        assert!(Kind::of(&project).unwrap_err().to_string().contains("has none of Cargo.toml, "));
    }
}
