//! Conditional includes: which patterns hold, for each way to come to a repository, as real git has it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on shall panic")]

use refdb_repo::{Environment, Repository};
use refdb_testkit::Git;
use refdb_vfs::Fs;
use std::{collections::BTreeSet, fmt::Write as _, fs, os::unix::fs::symlink, path::PathBuf};
use tempfile::TempDir;

/// One way to open a repository: the folder to stand in, and the variables.
type Way<'a> = (&'a str, Vec<(&'a str, String)>);

struct Place {
    temp: TempDir,
    root: String,
}

impl Place {
    fn new() -> Self {
        let temp = TempDir::with_prefix("refdb-includes-").unwrap();
        let root = temp.path().canonicalize().unwrap().display().to_string();
        let place = Place { temp, root };
        fs::create_dir(place.path("home")).unwrap();
        place.git("", &[], &["init", "-q", "--bare", "srv/x.git"]);
        place.git("", &[], &["init", "-q", "--bare", "home/x.git"]);
        place.git("", &[], &["init", "-q", "srv/work"]);
        place.git("srv/work", &[], &["commit", "-q", "--allow-empty", "-m", "first"]);
        place.git("srv/work", &[], &["worktree", "add", "-q", "../linked"]);
        fs::create_dir(place.path("srv/work/sub")).unwrap();
        fs::create_dir(place.path("srv/by-file")).unwrap();
        fs::write(place.path("srv/by-file/.git"), "gitdir: ../x.git\n").unwrap();
        fs::create_dir(place.path("srv/by-link")).unwrap();
        symlink("../x.git", place.path("srv/by-link/.git")).unwrap();
        symlink("srv", place.path("link")).unwrap();
        symlink("x.git", place.path("srv/y.git")).unwrap();
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.temp.path().join(below)
    }

    /// Returns what git prints to stdout, or to stderr if it fails.
    fn try_git(&self, dir: &str, variables: &[(&str, String)], args: &[&str]) -> Result<String, String> {
        let mut command = Git::find().command(&self.path(dir));
        command.env("HOME", self.path("home")).env_remove("GIT_CONFIG_GLOBAL").args(args);
        let output = command.envs(variables.iter().map(|(name, value)| (*name, value))).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
    }

    fn git(&self, dir: &str, variables: &[(&str, String)], args: &[&str]) -> String {
        self.try_git(dir, variables, args).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    }

    fn ours(&self, dir: &str, variables: &[(&str, String)]) -> Result<String, String> {
        let mut environment = Environment::empty(self.path(dir))
            .with("HOME", self.path("home").as_os_str())
            .with("GIT_CONFIG_NOSYSTEM", "1");
        for (name, value) in variables {
            environment = environment.with(*name, value);
        }
        let fs = Fs::real();
        let repository = Repository::discover(&fs, &environment).map_err(|error| error.report())?;
        let config = repository
            .config(&fs, &environment, &|| repository.branch_in_files(&fs))
            .map_err(|error| error.report())?;
        Ok(config
            .iter()
            .map(|value| {
                let file = value.origin.file.as_ref();
                let origin = file.map_or("command line:".into(), |file| format!("file:{}", file.display()));
                let raw = value.raw.map(|raw| format!("\n{raw}")).unwrap_or_default();
                format!("{origin}\0{}{raw}\0", value.key)
            })
            .collect())
    }

    /// Compares the whole configuration, including the file of each value, and describes what differs: the values that
    /// only one side has, or an error. Returns an empty text if nothing differs.
    fn difference(&self, dir: &str, variables: &[(&str, String)]) -> String {
        let git = self.try_git(dir, variables, &["config", "list", "--show-origin", "-z"]);
        // How the repository's own file is spelled is not compared here.
        let plain = |text: String| text.replace("file:./", "file:").replace("//", "/");
        let (git, ours) = (git.map(plain), self.ours(dir, variables).map(plain));
        if git == ours {
            return String::new();
        }
        if let (Err(git), Err(ours)) = (&git, &ours)
            && [git, ours].iter().all(|said| said.contains("Is a directory"))
        {
            // Git says so in a warning and blames the line of the include; refdb names the folder alone.
            return String::new();
        }
        let (Ok(git), Ok(ours)) = (&git, &ours) else {
            return format!("in {dir} with {variables:?}: git {git:?}, ours {ours:?}\n");
        };
        let lines = |text: &str| text.split('\0').map(str::to_owned).collect::<BTreeSet<_>>();
        let (git, ours) = (lines(git), lines(ours));
        let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
        format!("in {dir} with {variables:?}: only git {:?}, only ours {:?}\n", only(&git, &ours), only(&ours, &git))
    }

    fn ways(&self) -> Vec<Way<'static>> {
        let root = &self.root;
        let named = |dir: &str| vec![("GIT_DIR", dir.to_owned())];
        vec![
            ("srv/x.git", vec![]),
            ("srv/x.git/refs", vec![]),
            ("home/x.git", vec![]),
            ("srv/work", vec![]),
            ("srv/work/sub", vec![]),
            ("srv/work/.git", vec![]),
            ("srv/linked", vec![]),
            ("srv/by-file", vec![]),
            ("srv/by-link", vec![]),
            ("link/x.git", vec![]),
            ("link/x.git", vec![("PWD", format!("{root}/link/x.git"))]),
            ("srv/x.git", vec![("PWD", format!("{root}/srv/y.git"))]),
            ("link/work", vec![("PWD", format!("{root}/link/work"))]),
            ("link/work/sub", vec![("PWD", format!("{root}/link/work/sub"))]),
            ("srv", vec![("PWD", root.clone()), ("GIT_DIR", "x.git".into())]),
            ("srv", vec![("PWD", format!("{root}/link")), ("GIT_DIR", "x.git".into())]),
            ("srv", named("y.git")),
            ("srv", named("x.git/")),
            ("srv", named("./x.git")),
            ("srv/x.git", named(".")),
            ("srv/x.git", named("./")),
            ("srv/x.git/refs", named("..")),
            ("", named(&format!("{root}/srv/x.git"))),
            ("", named(&format!("{root}/link/y.git/"))),
            ("", named(&format!("{root}/srv/../srv/x.git/."))),
            ("", named("srv/by-file/.git")),
            ("srv/work", named(".git")),
        ]
    }

    fn patterns(&self) -> Vec<String> {
        let root = &self.root;
        let mut patterns: Vec<String> = [
            "",
            "/",
            "*",
            "**",
            "**/",
            "/**",
            ".",
            "..",
            "./",
            "../",
            "./.",
            "./*",
            "./**",
            "././",
            "./x.git",
            "./x.git/",
            "./*/",
            "./**/x.git/",
            "./.git",
            ".git",
            ".git/",
            "x.git",
            "x.git/",
            "X.git/",
            "x.git/.",
            "x.git/*",
            "x.git/**",
            "y.git/",
            "git/",
            "*.git",
            "*.git/",
            "?.git/",
            "[xy].git/",
            "srv/",
            "srv/x.git/",
            "srv/*/",
            "link/",
            "work/",
            "work/.git/",
            "work/**/linked",
            "worktrees/",
            "~",
            "~/",
            "~/x.git",
            "~/x.git/",
            "~/*/",
            "~/**",
            "~//",
            "x.git//",
            "x.git/./",
            "~/./",
        ]
        .map(str::to_owned)
        .into();
        for tail in [
            "",
            "/",
            "/*",
            "/*/",
            "/**",
            "/srv/x.git",
            "/srv/x.git/",
            "/srv/x.git/.",
            "/srv/*/",
            "/srv/y.git/",
            "/link/x.git",
            "/link/x.git/",
            "/link/x.git/.",
            "/link/",
            "/SRV/X.GIT/",
            "/srv/./x.git/",
            "/srv//x.git/",
            "/srv/work/",
            "/srv/work/.git",
            "/srv/work/.git/",
            "/srv/work/.git/worktrees/linked/",
            "/link/work/.git",
        ] {
            patterns.push(format!("{root}{tail}"));
        }
        patterns
    }

    /// Gives the file an include for each pattern and each keyword; each includes a file of its own.
    fn conditions(&self, file: &str, mark: &str) {
        let mut text = String::new();
        for (number, pattern) in self.patterns().iter().enumerate() {
            for (keyword, short) in [("gitdir", "s"), ("gitdir/i", "i")] {
                let target = self.path(&format!("{mark}{short}{number}"));
                fs::write(&target, format!("[x]\n\tholds = {keyword}:{pattern}\n")).unwrap();
                writeln!(text, "[includeIf \"{keyword}:{pattern}\"]\n\tpath = {}", target.display()).unwrap();
            }
        }
        let before = fs::read_to_string(self.path(file)).unwrap_or_default();
        fs::write(self.path(file), before + &text).unwrap();
    }
}

#[test]
fn a_pattern_of_a_folder_held_for_git_but_not_where_the_folder_is_the_repository() {
    let place = Place::new();
    place.conditions("home/.gitconfig", "g");
    place.conditions("srv/x.git/config", "l");
    place.conditions("srv/common", "c");
    fs::write(place.path("srv/work/.git/config.worktree"), "").unwrap();
    let path = place.path("link/common");
    for dir in ["srv/work", "srv/x.git"] {
        place.git(dir, &[], &["config", "include.path", path.to_str().unwrap()]);
    }
    let different: String = place.ways().iter().map(|(dir, variables)| place.difference(dir, variables)).collect();
    assert_eq!(different, "");
}

#[test]
fn the_home_in_a_pattern_may_be_a_link_or_unknown() {
    let place = Place::new();
    let home = place.path("home-link");
    std::os::unix::fs::symlink("srv", &home).unwrap();
    let odd = "srv/~nobody-of-this-name";
    fs::create_dir_all(place.path(odd)).unwrap();
    place.git(odd, &[], &["init", "-q", "r"]);
    fs::write(place.path("srv/found"), "[x]\n\tfound\n").unwrap();
    let homes = [vec![], vec![("HOME", home.display().to_string())]];
    let mut different = String::new();
    for repository in ["srv/work", &format!("{odd}/r")] {
        let file = place.path(&format!("{repository}/.git/config"));
        let before = fs::read_to_string(&file).unwrap();
        for pattern in ["~/work/", "~/work/*", "~", "~/", "~/**", "~nobody-of-this-name/", "~root/", "**/~*/**"] {
            let target = place.path("srv/found");
            let text = format!("{before}[includeIf \"gitdir:{pattern}\"]\n\tpath = {}\n", target.display());
            fs::write(&file, text).unwrap();
            for variables in &homes {
                let difference = place.difference(repository, variables);
                if !difference.is_empty() {
                    different += &format!("{pattern} in {repository} with {variables:?}: {difference}");
                }
            }
        }
        fs::write(&file, before).unwrap();
    }
    assert_eq!(different, "");
}

/// Previously, HEADs of other worktrees were looked for below the own worktree's folder.
#[test]
fn the_branch_at_the_end_of_a_chain_through_other_worktrees_is_found() {
    let place = Place::new();
    place.git("srv/work", &[], &["worktree", "add", "-q", "../third"]);
    let common = place.path("srv/work/.git");
    let main = place.git("srv/work", &[], &["symbolic-ref", "--short", "HEAD"]);
    let mut text = fs::read_to_string(common.join("config")).unwrap();
    for branch in [main.trim(), "linked", "third"] {
        fs::write(common.join(format!("on-{branch}")), format!("[on]\n\tbranch = {branch}\n")).unwrap();
        writeln!(text, "[includeIf \"onbranch:{branch}\"]\n\tpath = on-{branch}").unwrap();
    }
    fs::write(common.join("config"), text).unwrap();
    let symbolic = |file: PathBuf, target: &str| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, format!("ref: {target}\n")).unwrap();
    };
    symbolic(common.join("refs/bisect/far"), "refs/heads/third");
    let linked = common.join("worktrees/linked");
    // Git takes no folder for a repository whose HEAD leads elsewhere than to `refs/`.
    symbolic(linked.join("HEAD"), "refs/bisect/near");
    let mut different = String::new();
    for (target, branch) in [
        ("main-worktree/HEAD", Some(main.trim())),
        ("main-worktree/refs/bisect/far", Some("third")),
        ("worktrees/third/HEAD", Some("third")),
        ("worktrees/none/HEAD", None),
        ("main-worktree/refs/heads/third", None),
    ] {
        symbolic(linked.join("refs/bisect/near"), target);
        different += &place.difference("srv/linked", &[]);
        let ours = place.ours("srv/linked", &[]).unwrap();
        let found = ours.split_once("on.branch\n").and_then(|(_, rest)| rest.split('\0').next());
        assert_eq!(found, branch, "{target}");
    }
    assert_eq!(different, "");
}

/// Compares, besides, the forms of paths, branches and URLs, includes that are nested too deep or include themselves,
/// and missing files.
#[test]
fn an_include_that_depends_on_urls_was_not_checked_for_urls_where_its_condition_did_not_hold() {
    let place = Place::new();
    let root = place.root.clone();
    fs::write(place.path("srv/found"), "[x]\n\tfound\n").unwrap();
    fs::write(place.path("home/found"), "[x]\n\thome\n").unwrap();
    fs::create_dir_all(place.path("srv/folder")).unwrap();
    fs::write(place.path("srv/work/.git/found"), "[x]\n\there\n").unwrap();
    fs::write(place.path("srv/work/.git/loop"), "[include]\n\tpath = loop\n").unwrap();
    fs::write(place.path("srv/work/.git/back"), "[include]\n\tpath = config\n").unwrap();
    fs::write(place.path("srv/work/.git/url"), "[remote \"q\"]\n\turl = ssh://x/y\n").unwrap();
    fs::write(place.path("srv/work/.git/deeper"), "[include]\n\tpath = url\n").unwrap();
    fs::write(place.path("srv/work/.git/bad"), "[x\n").unwrap();
    fs::write(place.path("srv/work/.git/pushes"), "[remote \"q\"]\n\tpushurl = ssh://x/y\n").unwrap();
    for depth in 0..12 {
        let text = format!("[x]\n\tdepth = {depth}\n[include]\n\tpath = d{}\n", depth + 1);
        fs::write(place.path(&format!("srv/work/.git/d{depth}")), text).unwrap();
    }
    let file = place.path("srv/work/.git/config");
    let before = fs::read_to_string(&file).unwrap();
    let mut different = String::new();
    let mut compare = |text: &str| {
        fs::write(&file, format!("{before}{text}")).unwrap();
        for (dir, variables) in
            [("srv/work", vec![]), ("srv/linked", vec![]), ("srv", vec![("GIT_DIR", "../link/work/.git".to_owned())])]
        {
            let difference = place.difference(dir, &variables);
            if !difference.is_empty() {
                different += &format!("{text}: {difference}");
            }
        }
    };
    for path in [
        "found",
        "./found",
        "../../found",
        "..//../found",
        "~/found",
        "~//found",
        "~",
        "~nobody-of-this-name/x",
        "",
        "missing",
        "missing/found",
        "found/x",
        "\"found\"",
        "\"found \"",
        "found # comment",
        "../../folder",
        "..",
        ".",
        "%(prefix)/found",
        ":(optional)found",
        ":(optional)missing",
        "loop",
        "back",
        "bad",
        "d2",
        "d3",
        "d1",
        &format!("{root}/srv/found"),
        &format!("{root}//srv/./found"),
        &format!("{root}/link/found"),
    ] {
        compare(&format!("[include]\n\tpath = {path}\n"));
    }
    compare("[include]\n\tpath\n");
    compare("[include \"sub\"]\n\tpath = found\n");
    compare("[Include]\n\tPath = found\n");
    compare("[includeIf]\n\tpath = found\n");
    compare("[includeIf \"gitdir:**\"]\n\tpath\n");
    compare("[includeIf \"gitdir:none\"]\n\tpath\n");
    compare("[IncludeIf \"gitdir:**\"]\n\tPATH = found\n[includeIf \"GitDir:**\"]\n\tpath = found\n");
    compare("[includeIf \"gitdir:~nobody-of-this-name/\"]\n\tpath = found\n");
    place.git("srv/work", &[], &["checkout", "-q", "-b", "topic/one"]);
    for branch in [
        "",
        "/",
        "*",
        "**",
        "**/",
        "**/one",
        "*/one",
        "topic",
        "topic/",
        "topic/*",
        "topic/**",
        "topic/on?",
        "topic/one/",
        "TOPIC/",
        "t*/",
        "refs/heads/topic/one",
        "/topic/one",
        "./topic/",
        "[st]opic/one",
        "linked",
        "lin*",
        "linked/",
        "topic\\\\/one",
    ] {
        compare(&format!("[includeIf \"onbranch:{branch}\"]\n\tpath = found\n"));
        compare(&format!("[includeIf \"onbranch/i:{branch}\"]\n\tpath = found\n"));
    }
    for url in [
        "",
        "**",
        "*",
        "/",
        "https://**",
        "https://*",
        "https://*/**",
        "https://example.com/*/*",
        "https://example.com/",
        "HTTPS://**",
        "https://example.com/**/project",
        "?ttps://**",
        "ssh://**",
        "**/project",
        "https://example.com/group/project/",
    ] {
        for target in ["found", "url", "deeper", "pushes", "bad", "missing"] {
            compare(&format!(
                "[includeIf \"hasconfig:remote.*.url:{url}\"]\n\tpath = {target}\n[remote \"o\"]\n\turl = https://example.com/group/project\n"
            ));
        }
        compare(&format!(
            "[includeIf \"hasconfig:remote.o.url:{url}\"]\n\tpath = found\n[remote \"o\"]\n\turl = https://example.com/b\n"
        ));
    }
    let later = "[include]\n\tpath = url\n[includeIf \"hasconfig:remote.*.url:ssh://**\"]\n\tpath = found\n";
    compare(later);
    compare("[remote]\n\turl = x\n[includeIf \"hasconfig:remote.*.url:**\"]\n\tpath = found\n");
    compare("[remote \"\"]\n\turl = x\n[includeIf \"hasconfig:remote.*.url:**\"]\n\tpath = found\n");
    compare("[includeIf \"hasconfig:remote.*.url:**\"]\n\tpath = loop\n[remote \"o\"]\n\turl = x\n");
    assert_eq!(different, "");
}
