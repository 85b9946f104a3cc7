//! Configuration values, and the messages about broken configuration, are the same as with real git, file by file.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_repo::{Environment, Repository, config::Level};
use refdb_testkit::Git;
use refdb_vfs::Fs;
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// A repository with configuration files to write, which compares the results with those of git.
struct Place {
    temp: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Place {
    fn new() -> Self {
        let temp = TempDir::with_prefix("refdb-config-").unwrap();
        let home = temp.path().join("home");
        fs::create_dir_all(home.join(".config/git")).unwrap();
        let variables = vec![
            ("HOME", home.display().to_string()),
            ("GIT_CONFIG_NOSYSTEM", "0".to_owned()),
            ("GIT_CONFIG_SYSTEM", temp.path().join("system").display().to_string()),
        ];
        let mut place = Place { temp, variables };
        place.git(&["init", "-q", "--initial-branch=main/a", "repo"], "").unwrap();
        place.variables.push(("GIT_CEILING_DIRECTORIES", "/".into()));
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.temp.path().join(below)
    }

    fn write(&self, file: &str, content: &str) {
        fs::write(self.path(file), content).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// Writes the configuration file of the repository: the usual header, and `content`.
    fn local(&self, content: &str) {
        let head = "[core]\n\trepositoryformatversion = 0\n\tbare = false\n";
        self.write("repo/.git/config", &format!("{head}{content}"));
    }

    fn git(&self, args: &[&str], dir: &str) -> Result<String, String> {
        let mut command = Git::find().command(&self.path(dir));
        // The clean environment of the test kit has no global configuration file; here, HOME determines it.
        command.env_remove("GIT_CONFIG_GLOBAL").args(args);
        let output = command.envs(self.variables.iter().map(|(name, value)| (*name, value))).output().unwrap();
        if output.status.success() {
            return Ok(String::from_utf8(output.stdout).unwrap());
        }
        assert_eq!(output.status.code(), Some(128), "{}", String::from_utf8_lossy(&output.stderr));
        Err(String::from_utf8(output.stderr).unwrap())
    }

    fn ours(&self, dir: &str) -> Result<String, String> {
        let mut environment = Environment::empty(self.path(dir));
        for (name, value) in &self.variables {
            environment = environment.with(*name, value);
        }
        let fs = Fs::real();
        let repository = Repository::discover(&fs, &environment).map_err(|error| error.report())?;
        let config = repository
            .config(&fs, &environment, &|| repository.branch_in_files(&fs))
            .map_err(|error| error.report())?;
        let lines = config.iter().map(|value| {
            let level = match value.origin.level {
                Level::System => "system",
                Level::Global => "global",
                Level::Local => "local",
                Level::Worktree => "worktree",
                Level::Command => "command",
            };
            let origin = match &value.origin.file {
                Some(file) => format!("file:{}", file.display()),
                None => "command line:".to_owned(),
            };
            let raw = value.raw.map(|raw| format!("\n{raw}")).unwrap_or_default();
            format!("{level}\0{origin}\0{}{raw}\0", value.key)
        });
        Ok(lines.collect())
    }

    #[track_caller]
    fn compare(&self) -> Result<String, String> {
        self.compare_in("repo")
    }

    #[track_caller]
    fn compare_in(&self, dir: &str) -> Result<String, String> {
        let git = self.git(&["config", "list", "--show-scope", "--show-origin", "-z"], dir);
        assert_eq!(self.ours(dir), git);
        git
    }
}

#[test]
fn files_are_read_in_gits_order() {
    let mut place = Place::new();
    place.write("system", "[x]\n\ty = system\n");
    place.write("home/.config/git/config", "[x]\n\ty = xdg\n");
    place.write("home/.gitconfig", "[x]\n\ty = home\n");
    place.local("[x]\n\ty = local\n[extensions]\n\tworktreeConfig = true\n");
    place.write("repo/.git/config.worktree", "[x]\n\ty = worktree\n");
    place.variables.push(("GIT_CONFIG_PARAMETERS", "'x.y'='parameters' 'a.B.c'=".into()));
    place.variables.push(("GIT_CONFIG_COUNT", "1".into()));
    place.variables.push(("GIT_CONFIG_KEY_0", "X.Y".into()));
    place.variables.push(("GIT_CONFIG_VALUE_0", "count".into()));
    assert_eq!(place.compare().unwrap().matches("x.y\n").count(), 7);
    fs::create_dir_all(place.path("repo/sub")).unwrap();
    place.compare_in("repo/sub").unwrap();
    place.variables.push(("GIT_CONFIG_NOSYSTEM", "yes".into()));
    place.variables.push(("GIT_CONFIG_GLOBAL", place.path("other").display().to_string()));
    place.write("other", "[x]\n\ty = other\n");
    assert_eq!(place.compare().unwrap().matches("x.y\n").count(), 5);
    place.variables.push(("GIT_CONFIG_NOSYSTEM", "bogus".into()));
    place.compare().unwrap_err();
}

/// Regression: the current folder was read as a file.
#[test]
fn a_variable_that_names_no_file_is_no_error() {
    let mut place = Place::new();
    place.write("system", "[x]\n\ty = system\n");
    place.write("home/.gitconfig", "[x]\n\ty = home\n");
    place.variables.extend([("GIT_CONFIG_SYSTEM", String::new()), ("GIT_CONFIG_GLOBAL", String::new())]);
    assert!(!place.compare().unwrap().contains("x.y"));
}

#[test]
fn xdg_config_home_moves_the_first_global_file() {
    let mut place = Place::new();
    fs::create_dir_all(place.path("xdg/git")).unwrap();
    place.write("xdg/git/config", "[x]\n\ty = xdg\n");
    place.write("home/.config/git/config", "[x]\n\ty = not this one\n");
    place.variables.push(("XDG_CONFIG_HOME", place.path("xdg").display().to_string()));
    assert!(place.compare().unwrap().contains("x.y\nxdg"));
}

#[test]
fn an_empty_home_is_the_root_and_not_the_current_folder() {
    let mut place = Place::new();
    fs::create_dir_all(place.path("repo/.config/git")).unwrap();
    place.write("repo/.config/git/config", "[x]\n\ty = xdg\n");
    place.write("repo/.gitconfig", "[x]\n\ty = repo\n");
    place.write("home/.gitconfig", "[x]\n\ty = home\n");
    place.write("repo/.git/included", "[x]\n\ty = included\n");
    place.local("[include]\n\tpath = ~/included\n");
    place.variables.retain(|(name, _)| *name != "HOME");
    for (home, found) in [("", 0), ("../home", 1), ("/", 0), ("/nonexistent/", 0), ("//", 0)] {
        place.variables.push(("HOME", home.into()));
        assert_eq!(place.compare().unwrap().matches("x.y\n").count(), found, "{home:?}");
    }
    place.write("repo/.git/config", &format!("[include]\n\tpath = ~/{}\n", place.path("repo/.git/included").display()));
    place.variables.push(("HOME", "".into()));
    assert_eq!(place.compare().unwrap().matches("x.y\n").count(), 1);
}

#[test]
fn every_spelling_of_a_variable_is_understood_as_git_does() {
    let place = Place::new();
    for text in [
        "[a]b=1\n",
        "[a]b\n[A]B =\n[a-b.c]d-e = 1 2   # x\n",
        "[a]b=\"1 2   # x\" ; c\r\n\tc = x\"y z\"w\t \t\n",
        "[a \"x]y\\\"z\\q\\\\ \"]b=1\n[a.B.C \"D e\"]f=1",
        "[a]b=x\\\n  y\\\n\tz  \n c=x  \\\n\n d=x  \"\" \n",
        "[a]b= \\t\\n\\b\\\"\\\\ ; x\n",
        "\n\n # [x\n ; y\n[a] ; z\n b=1 [x]c=1",
        "[a]b=x\\",
        "[.]b=1\n[a.]b=2\n",
        "\u{feff}[a]b=1\n",
        "[\u{e9}]b=1\n",
        "[a \"\u{e9}\"]b=\u{e9}\n",
        "[a]\u{e9}=1\n",
        "[a]b=\"x\n",
        "[a]b=\\q\n",
        "[a]b \"x\"\n",
        "[a]b #x\n",
        "[a]b\n=1\n",
        "[a]1b=1\n",
        "[a]b_=1\n",
        "[a \"x\" ]b=1\n",
        "[a\"x\"]b=1\n",
        "[a ]b=1\n",
        "[a\n]b=1\n",
        "[]b=1\n",
        "[a \"b",
        "[a \"b\"",
        "[a \"b\\",
        "[a",
        "[a]b=x \"y\\",
        "[a]b\\",
        "=1\n",
        "[a]\n\nb=\"1\\\n2",
    ] {
        place.local(text);
        let _ = place.compare();
    }
}

#[test]
fn a_nul_ends_a_value_and_control_characters_of_bad_values_are_not_shown() {
    let place = Place::new();
    place.write("repo/.git/included", "[x]\n\ty = included\n");
    place.local("[include]\n\tpath = inclu\0ded\n\tpath = included\0x\n[a]\n\tb = x\0\n\tc = \0\n\td = \"\0 x\" y\n");
    assert_eq!(place.compare().unwrap().matches("x.y\n").count(), 1);
    for value in ["x\u{1}\u{1b}[31m\u{7f}\u{e9}", "x\ty\\nz\\b"] {
        place.local(&format!("[extensions]\n\tworktreeConfig = {value}\n"));
        place.compare().unwrap_err();
    }
}

#[test]
fn includes_are_followed_where_they_stand() {
    let mut place = Place::new();
    place.local("[include]\n\tpath = one\n\tpath = missing\n\tpath = ~/two\n\tpath = sub/three\n[x]\n\ty = last\n");
    fs::create_dir(place.path("repo/.git/sub")).unwrap();
    place.write("repo/.git/one", "[x]\n\ty = one\n");
    place.write("home/two", "[x]\n\ty = two\n");
    place.write("repo/.git/sub/three", "[include]\n\tpath = ../four\n\tpath = four\n[x]\n\ty = three\n");
    place.write("repo/.git/sub/four", "[x]\n\ty = four\n");
    assert_eq!(place.compare().unwrap().matches("x.y\n").count(), 5);
    for broken in
        ["[x", "[include]\n\tpath\n", "[include]\n\tpath = ~nobody-of-that-name/x\n", "[include]\n\tpath=one\n"]
    {
        place.write("repo/.git/one", broken);
        place.compare().unwrap_err();
    }
    place.local("");
    place.write("home/two", "[x]\n\ty = two\n");
    let absolute = place.path("home/two").display().to_string();
    for (parameter, good) in [(absolute.as_str(), true), ("relative", false), ("~/two", true)] {
        place.variables.push(("GIT_CONFIG_PARAMETERS", format!("'include.path'='{parameter}'")));
        assert_eq!(place.compare().is_ok(), good, "{parameter}");
    }
}

#[test]
fn conditional_includes_follow_the_repository() {
    let place = Place::new();
    let root = place.temp.path().canonicalize().unwrap().display().to_string();
    place.write("repo/.git/found", "[x]\n\tfound\n");
    place.write("found", "[x]\n\tfound\n");
    place.write("home/found", "[x]\n\tfound\n");
    std::os::unix::fs::symlink(place.path("repo"), place.path("link")).unwrap();
    for (condition, holds) in [
        (format!("gitdir:{root}/repo/.git"), true),
        (format!("gitdir:{root}/"), true),
        (format!("gitdir:{root}/repo"), false),
        (format!("gitdir:{root}/*/.git"), true),
        (format!("gitdir:{root}/REPO/"), false),
        (format!("gitdir/i:{root}/REPO/"), true),
        ("gitdir:repo/".into(), true),
        ("gitdir:repo/.git".into(), true),
        ("gitdir:.git".into(), true),
        ("gitdir:epo/".into(), false),
        ("gitdir:~/".into(), false),
        ("gitdir:~/../repo/".into(), false),
        ("gitdir:./../repo/".into(), false),
        ("gitdir:./".into(), false),
        ("onbranch:main/a".into(), true),
        ("onbranch:main/".into(), true),
        ("onbranch:main".into(), false),
        ("onbranch:*".into(), false),
        ("onbranch:**".into(), true),
        ("onbranch:main/[a-c]".into(), true),
        ("hasconfig:remote.*.url:https://example.com/**".into(), true),
        ("hasconfig:remote.*.url:https://example.com/*".into(), false),
        ("hasconfig:remote.*.url:ssh://**".into(), false),
        ("unknown:x".into(), false),
        ("gitdir".into(), false),
    ] {
        let text = format!(
            "[includeIf \"{condition}\"]\n\tpath = found\n[remote \"o\"]\n\turl = https://example.com/group/project\n"
        );
        place.local(&text);
        assert_eq!(place.compare().unwrap().contains("x.found"), holds, "{condition}");
    }
    place.write(
        "home/.gitconfig",
        "[includeIf \"gitdir:./../repo/\"]\n\tpath = found\n[includeIf \"gitdir:./\"]\n\tpath = found\n",
    );
    place.write("system", "[includeIf \"hasconfig:remote.*.url:https://**\"]\n\tpath = found\n");
    place.compare().unwrap();
    place.write("found", "[remote \"p\"]\n\turl = ssh://x/y\n");
    place.compare().unwrap_err();
}

/// Regression: the file to which the link leads was read instead.
#[test]
fn a_head_that_is_a_symbolic_link_names_its_branch() {
    let place = Place::new();
    place.local("[includeIf \"onbranch:main/a\"]\n\tpath = found\n");
    place.write("repo/.git/found", "[x]\n\tfound\n");
    place.git(&["commit", "-q", "--allow-empty", "-m", "x"], "repo").unwrap();
    for (target, holds) in [("refs/heads/main/a", true), ("refs/heads/b", false)] {
        fs::remove_file(place.path("repo/.git/HEAD")).unwrap();
        std::os::unix::fs::symlink(target, place.path("repo/.git/HEAD")).unwrap();
        assert_eq!(place.compare().unwrap().contains("x.found"), holds, "{target}");
    }
}

#[test]
fn settings_on_the_command_line_are_checked() {
    let mut place = Place::new();
    for (parameters, good) in [
        ("'a.b=c'  'd.e'='' 'f.g='", true),
        ("'a.b'='x'\\''y'\\!'z'", true),
        ("'A.b C.D' ", true),
        (" 'a.b'=", false),
        ("'a.b'=c", false),
        ("a.b=c", false),
        ("'a.b=c", false),
        ("'foo'=", false),
        ("'a.'='1'", false),
        ("''='1'", false),
        ("'a.b c*'=", false),
        ("'a.b\nc.d'='1'", false),
    ] {
        place.variables.push(("GIT_CONFIG_PARAMETERS", parameters.into()));
        assert_eq!(place.compare().is_ok(), good, "{parameters}");
        place.variables.pop();
    }
    for count in ["1", "x", "-1", "99999999999", "", "1k"] {
        place.variables.push(("GIT_CONFIG_COUNT", count.into()));
        let _ = place.compare();
        place.variables.pop();
    }
}

#[test]
fn values_are_converted_as_git_does() {
    let place = Place::new();
    let mut environment = Environment::empty(place.path("repo"));
    for (name, value) in &place.variables {
        environment = environment.with(*name, value);
    }
    let fs = Fs::real();
    for text in [
        "1",
        "0",
        "-1",
        "2k",
        "0x10",
        "010",
        " 1",
        "1 ",
        "",
        "k",
        "1kk",
        "2147483647",
        "2147483648",
        "2g",
        "1G",
        "9223372036854775807",
        "9223372036854775808",
        "8589934592g",
        "tRuE",
        "yes",
        "off",
        "nope",
        "~/x",
        "~root/y",
        "~nobody-of-that-name/z",
        "rel",
        "~",
        ":(optional)rel",
        ":(optional)/",
    ] {
        place.local(&format!("[a]\n\tb = \"{text}\"\n"));
        let repository = Repository::discover(&fs, &environment).unwrap();
        let config = repository.config(&fs, &environment, &|| None).unwrap();
        let value = config.last("a.b").unwrap();
        let git = |kind: &str| {
            let output = Git::find()
                .command(&place.path("repo"))
                .args(["config", "get", &format!("--type={kind}"), "a.b"])
                .env("HOME", place.path("home"))
                .output()
                .unwrap();
            match output.status.code() {
                // git prints nothing for an optional path that does not exist.
                Some(1) => Ok("".to_owned()),
                _ if output.status.success() => {
                    Ok(String::from_utf8(output.stdout).unwrap().trim_end_matches('\n').to_owned())
                }
                _ => Err(String::from_utf8(output.stderr).unwrap()),
            }
        };
        assert_eq!(value.boolean().map(|b| b.to_string()).map_err(|e| e.report()), git("bool"), "{text:?} as bool");
        assert_eq!(value.long().map(|i| i.to_string()).map_err(|e| e.report()), git("int"), "{text:?} as int");
        let path = value.path(&environment).map(|path| path.unwrap_or_default().display().to_string());
        assert_eq!(path.map_err(|e| e.report()), git("path"), "{text:?} as path");
    }
}
