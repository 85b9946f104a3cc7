//! Scenes: two nodes, one step after the other, and what each step must say.

use crate::node::Cluster;
use std::{ops::Range, sync::Mutex, thread, thread::sleep, time::Duration};

/// A pause after which an NFS client still trusts what it has cached, which it may for three seconds by default.
const LATER: Duration = Duration::from_millis(1200);
const NAME: &str = "refs/heads/main";
const NOTHING: &str = "0000000000000000000000000000000000000000";

/// What is to be played, and by which agents.
pub(crate) struct Plan<'a> {
    /// Some of `view`, `serve`, `jgit` and `git`.
    pub(crate) engines: Vec<&'a str>,
    /// The names of scenes; all if there are none.
    pub(crate) chosen: &'a [&'a str],
    pub(crate) lines: Range<usize>,
}

/// A scene that was played.
pub(crate) struct Played {
    /// The scene, the format, the trust setting and the engine.
    pub(crate) what: String,
    pub(crate) said: String,
    pub(crate) is_right: bool,
}

/// Plays scenes, those of different engines, formats and trust settings at once.
pub(crate) fn run(cluster: &Cluster, plan: &Plan<'_>) -> Vec<Played> {
    let git = refdb_testkit::Git::find().program().display().to_string();
    let templates = format!("/mnt/share/template{}", plan.lines.start);
    let ids = make(cluster, &git, &templates);
    let mut parts = Vec::new();
    for engine in &plan.engines {
        // Git has no such setting, and JGit's is not ours to judge.
        let is_ours = ["view", "serve"].contains(engine);
        let trusts: &[&str] = if is_ours { &["after_open", "never", "always"] } else { &["after_open"] };
        let engine = if *engine == "git" { &git } else { *engine };
        parts.extend(
            ["files", "reftable"].iter().flat_map(|format| trusts.iter().map(move |trust| (engine, *format, *trust))),
        );
    }
    let parts = Mutex::new(parts);
    thread::scope(|scope| {
        let players = plan.lines.clone().map(|line| {
            let (ids, git, templates, parts) = (&ids, &git, &templates, &parts);
            scope.spawn(move || {
                let next = || parts.lock().expect("no player panicked").pop();
                let mut played = Vec::new();
                while let Some((engine, format, trust)) = next() {
                    let stage =
                        Stage { cluster, git, engine, format, trust, line, templates, ids, path: String::new() };
                    played.extend(stage.play_all(plan.chosen));
                }
                played
            })
        });
        let players: Vec<_> = players.collect();
        players.into_iter().flat_map(|player| player.join().expect("a player ends")).collect()
    })
}

/// Makes a repository of each format, of which each scene takes a copy, and returns the ids of its commits.
fn make(cluster: &Cluster, git: &str, templates: &str) -> Vec<String> {
    let mut ids = Vec::new();
    for format in ["files", "reftable"] {
        let path = format!("{templates}-{format}.git");
        let commits = "$git config reftable.autoRefresh true && t=$($git mktree </dev/null) && \
                       export GIT_COMMITTER_DATE='1700000000 +0000' GIT_AUTHOR_DATE='1700000000 +0000' && \
                       for i in 0 1 2 3 4 5 6 7 8 9; do $git commit-tree -m $i $t; done";
        ids = cluster.make_repository(1, format, &path, commits).split(" | ").map(str::to_owned).collect();
        cluster.shell(1, &format!("cd {path} && {git} update-ref {NAME} {} && {git} pack-refs --all", ids[1]));
    }
    ids
}

struct Stage<'a> {
    cluster: &'a Cluster,
    git: &'a str,
    engine: &'a str,
    format: &'a str,
    trust: &'a str,
    line: usize,
    /// The beginning of the paths of the repositories that scenes copy; the format follows.
    templates: &'a str,
    ids: &'a [String],
    path: String,
}

impl Stage<'_> {
    fn play_all(mut self, chosen: &[&str]) -> Vec<Played> {
        let of = |scene: &str| chosen.is_empty() || chosen.contains(&scene);
        let is_jgit = self.engine == "jgit";
        let suits = |scene: &str| if is_jgit { scene != MIGRATION } else { scene != PUSHES };
        let scenes: Vec<_> = scenes().filter(|(scene, ..)| of(scene) && suits(scene)).collect();
        scenes.into_iter().map(|(scene, steps, expected)| self.play(scene, steps, expected)).collect()
    }

    fn play(&mut self, scene: &str, steps: &str, expected: &str) -> Played {
        let (format, trust) = (self.format, self.trust);
        let short = self.engine.rsplit('/').next().expect("a name");
        self.path = format!("/mnt/share/{scene}-{trust}-{format}-{short}-{}.git", self.line);
        let (git, path, templates) = (self.git, &self.path, self.templates);
        self.cluster.shell(
            1,
            &format!("cp -r {templates}-{format}.git {path} && {git} -C {path} config core.trustStat {trust}"),
        );
        let said = steps.split("; ").map(|step| self.step(step)).collect::<Vec<_>>().join(", ");
        for node in [1, 2] {
            self.ask(node, "close", &[]);
        }
        Played { what: format!("{scene} {format} {trust} {short}"), is_right: said == expected, said }
    }

    /// Does a step, which is `NODE VERB...` or `wait`. Returns what was said.
    fn step(&self, step: &str) -> String {
        let words: Vec<&str> = step.split(' ').collect();
        let node = words[0].parse().unwrap_or(0);
        match &words[1..] {
            ["get", name] => self.ask(node, "get", &[name]),
            ["pack"] => self.ask(node, "pack", &[]),
            ["git", name] => self.ask_with(self.git, node, "get", &[name]),
            ["push", name, new] => {
                let id = &self.ids[new.parse::<usize>().expect("a number")];
                let refdb = std::env::current_exe().expect("this program has a path").with_file_name("refdb");
                let (git, path, refdb) = (self.git, &self.path, refdb.display());
                let push = format!("{git} -C {path} push -q --receive-pack='{refdb} receive-pack' {path} +{id}:{name}");
                let said = self.cluster.shell(node, &format!("{push} 2>&1"));
                if said.is_empty() { "ok".into() } else { said }
            }
            ["migrate"] => {
                let other = if self.path.contains("-files-") { "reftable" } else { "files" };
                self.cluster.shell(node, &format!("{} -C {} refs migrate --ref-format={other}", self.git, self.path));
                "ok".into()
            }
            ["set", name, old, new] => {
                let id = |at: &str| {
                    if at == "-" {
                        NOTHING.to_owned()
                    } else {
                        self.ids[at.parse::<usize>().expect("a number")].clone()
                    }
                };
                let said = self.ask(node, "swap", &[name, &id(old), &id(new)]);
                if said.starts_with("refused") { "refused".into() } else { said }
            }
            [] if step == "wait" => {
                sleep(LATER);
                "..".into()
            }
            _ => panic!("no step: {step}"),
        }
    }

    fn ask(&self, node: usize, operation: &str, arguments: &[&str]) -> String {
        self.ask_with(self.engine, node, operation, arguments)
    }

    fn ask_with(&self, engine: &str, node: usize, operation: &str, arguments: &[&str]) -> String {
        let mut words = vec![engine, &self.path, operation];
        words.extend(arguments);
        match self.cluster.ask(node, self.line, &words) {
            Ok(said) if said.is_empty() => "ok".into(),
            Ok(said) => self.ids.iter().position(|id| *id == said).map_or(said, |at| at.to_string()),
            Err(error) => format!("error: {error}"),
        }
    }
}

/// The scenes of `refdb check-storage`, and those that need git. Before each, `refs/heads/main` is packed and has value
/// 1.
fn scenes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let shared = refdb_cli::check_storage::scenes::SCENES.iter();
    shared.map(|scene| (scene.name, scene.steps, scene.expected)).chain(WITH_GIT.iter().copied())
}

/// Scenes that need git: the name, the steps (`NODE VERB...` or `wait`), and what must be said.
const WITH_GIT: &[(&str, &str, &str)] = &[
    // What an engine has read makes git on its machine no staler.
    (
        "H",
        "1 get refs/heads/main; wait; 2 set refs/heads/main 1 5; 2 pack; 1 git refs/heads/main",
        "1, .., done, ok, 5",
    ),
    // A migration to the other format is noticed under the lock.
    (
        MIGRATION,
        "1 get refs/heads/main; wait; 2 migrate; 1 set refs/heads/main 1 9; 2 get refs/heads/main",
        "1, .., ok, done, 9",
    ),
    // Pushes that refdb receives on one machine, and writes of JGit on the other.
    (
        PUSHES,
        "2 get refs/heads/main; wait; 1 push refs/heads/main 5; wait; 2 set refs/heads/main 1 6; \
         2 set refs/heads/main 5 7; 1 git refs/heads/main; 1 push refs/heads/main 8; wait; 2 get refs/heads/main",
        "1, .., ok, .., refused, done, 7, ok, .., 8",
    ),
];

/// This scene is for JGit alone.
const PUSHES: &str = "R";

/// This scene leaves out JGit, which keeps the format with which it opened a repository.
const MIGRATION: &str = "M";
