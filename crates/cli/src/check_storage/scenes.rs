//! Scenes: steps that two hosts take one after the other, and the answers that they must give.

use super::{
    host::{Failure, Host, Trouble},
    repository::{self, Format},
};
use refdb_vfs::planted;
use std::{path::Path, thread::sleep, time::Duration};

/// The pause of the step `wait`. After this pause, an NFS client may by default still use cached attributes, because
/// it keeps them for at least three seconds.
const LATER: Duration = Duration::from_millis(1200);

/// What two hosts, 1 and 2, do one after the other.
#[derive(Debug)]
pub struct Scene {
    /// The letter of the scene.
    pub name: &'static str,
    /// A description of what the scene shows.
    pub about: &'static str,
    /// The steps, `HOST VERB...` or `wait`, separated by semicolons. `refs/heads/main` has the value 1 at first and is
    /// packed.
    pub steps: &'static str,
    /// The answers that must be given, separated by commas; `..` stands for that of `wait`.
    pub expected: &'static str,
}

/// All scenes. Each of them has failed on some mount, or with some program.
pub static SCENES: &[Scene] = &[
    Scene {
        name: "A",
        about: "a change, and the packing of the ref, are seen on the other host",
        steps: "1 get refs/heads/main; 2 set refs/heads/main 1 5; wait; 1 get refs/heads/main; 2 pack; wait; 1 get \
                refs/heads/main",
        expected: "1, done, .., 5, ok, .., 5",
    },
    Scene {
        name: "B",
        about: "a change from a value that the other host has replaced and packed is refused",
        steps: "1 get refs/heads/main; wait; 2 set refs/heads/main 1 5; 2 pack; wait; 1 set refs/heads/main 1 9; 2 \
                get refs/heads/main",
        expected: "1, .., done, ok, .., refused, 5",
    },
    Scene {
        name: "F",
        about: "a new ref in new folders is seen on the other host",
        steps: "1 get refs/heads/a/b/deep; 2 set refs/heads/a/b/deep - 3; wait; 1 get refs/heads/a/b/deep",
        expected: "none, done, .., 3",
    },
    Scene {
        name: "C",
        about: "a ref is created only where there is none",
        steps: "1 get refs/heads/new; wait; 2 set refs/heads/new - 3; 1 set refs/heads/new - 4; 1 get refs/heads/new",
        expected: "none, .., done, refused, 3",
    },
    Scene {
        name: "D",
        about: "a deleted ref stays deleted, also if the other host packs at once",
        steps: "1 set refs/heads/main 1 2; 1 get refs/heads/main; wait; 2 set refs/heads/main 2 -; 1 pack; wait; 1 \
                get refs/heads/main; 2 get refs/heads/main",
        expected: "done, 2, .., done, ok, .., none, none",
    },
];

/// A scene with an answer that was not the expected one.
#[derive(Debug)]
pub(super) struct Wrong {
    /// The name of the scene, the hosts, and what the scene should have shown.
    pub(super) text: String,
    /// The steps, the answers that were given, and the expected ones.
    pub(super) detail: String,
    pub(super) kind: Kind,
}

/// What a wrong answer in a scene means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// An update was lost, or an update was made that had to be refused.
    Loss,
    /// No update was lost, but a host gave another answer than expected.
    Late,
    /// A step failed with an error.
    Failed,
}

/// Plays all scenes in one format in the folder `run`, and adds those that went wrong to `wrong`. `hosts` are host 1
/// and host 2 of each scene, and `client` is the number of the client that answers on both.
pub(super) fn play_all(
    run: &Path,
    format: Format,
    hosts: [&Host; 2],
    client: usize,
    wrong: &mut Vec<Wrong>,
) -> Result<(), Trouble> {
    for scene in SCENES {
        let [one, two] = hosts.map(|host| host.number);
        let path = run.join(format!("{}-{format}-{client}-{one}-{two}.git", scene.name));
        repository::make(&path, format).map_err(Trouble::Here)?;
        let stage = Stage { hosts, client, path: path.to_string_lossy().into_owned() };
        wrong.extend(stage.play(scene)?);
    }
    Ok(())
}

struct Stage<'a> {
    hosts: [&'a Host; 2],
    client: usize,
    path: String,
}

impl Stage<'_> {
    fn play(&self, scene: &Scene) -> Result<Option<Wrong>, Trouble> {
        let maker = self.hosts[0];
        maker.ask(self.client, &["set", &self.path, "refs/heads/main", "0", "1"]).map_err(|why| maker.trouble(why))?;
        maker.ask(self.client, &["pack", &self.path]).map_err(|why| maker.trouble(why))?;
        let mut said = Vec::new();
        for step in scene.steps.split("; ") {
            said.push(self.step(step)?);
        }
        for host in self.hosts {
            host.ask(self.client, &["close", &self.path]).map_err(|why| host.trouble(why))?;
        }
        let expected: Vec<&str> = scene.expected.split(", ").collect();
        if said == expected {
            return Ok(None);
        }
        let [one, two] = self.hosts.map(|host| &host.label);
        let text = format!("scene {}, with {one} as 1 and {two} as 2, does not show that {}", scene.name, scene.about);
        let detail = format!("{}: said {}, expected {}", scene.steps, said.join(", "), scene.expected);
        let kind = kind_of(scene, &said);
        Ok(Some(Wrong { text, detail, kind }))
    }

    /// Takes the step `HOST VERB...` or `wait`, and returns the answer.
    fn step(&self, step: &str) -> Result<String, Trouble> {
        if step == "wait" {
            // One kernel sees its own changes at once, so tests on a single machine need not wait long.
            sleep(if planted("check-storage-one-kernel") { LATER / 20 } else { LATER });
            return Ok("..".into());
        }
        let words: Vec<&str> = step.split_whitespace().collect();
        let host = self.hosts[usize::from(words[0] == "2")];
        let rest = words[2..].iter().map(|word| if *word == "-" { "0" } else { word });
        let question: Vec<&str> = [words[1], &self.path].into_iter().chain(rest).collect();
        match host.ask(self.client, &question) {
            Ok(said) if said == "0" => Ok("none".into()),
            Ok(said) if said.starts_with("refused") => Ok("refused".into()),
            Ok(said) => Ok(said),
            Err(Failure::Said(error)) => Ok(format!("error: {error}")),
            Err(why) => Err(host.trouble(why)),
        }
    }
}

/// Returns what wrong answers mean: a loss if an update was made that had to be refused; otherwise a failed step if
/// there was an error; otherwise a loss if the host that wrote last does not see its own update at the end; and a late
/// view in all other cases.
fn kind_of(scene: &Scene, said: &[String]) -> Kind {
    let expected: Vec<&str> = scene.expected.split(", ").collect();
    let steps: Vec<&str> = scene.steps.split("; ").collect();
    let was_made = expected.iter().zip(said).any(|(expected, said)| *expected == "refused" && said == "done");
    let last_writer = steps.iter().zip(said).rfind(|(step, said)| step.contains(" set ") && *said == "done");
    let last_reader = steps.iter().zip(said).zip(&expected).next_back();
    let is_own_unseen = match (last_writer, last_reader) {
        (Some((writer, _)), Some(((reader, said), expected))) => writer[..1] == reader[..1] && said != expected,
        _ => false,
    };
    if was_made {
        Kind::Loss
    } else if said.iter().any(|said| said.starts_with("error")) {
        Kind::Failed
    } else if is_own_unseen {
        Kind::Loss
    } else {
        Kind::Late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_has_an_answer_for_each_step() {
        for scene in SCENES {
            assert_eq!(scene.steps.split("; ").count(), scene.expected.split(", ").count(), "{}", scene.name);
        }
    }

    #[test]
    fn a_late_view_is_told_apart_from_a_loss() {
        let of = |name: &str, said: &str| {
            let said: Vec<String> = said.split(", ").map(str::to_owned).collect();
            kind_of(SCENES.iter().find(|scene| scene.name == name).unwrap(), &said)
        };
        assert_eq!(of("A", "1, done, .., 1, ok, .., 5"), Kind::Late);
        assert_eq!(of("B", "1, .., done, ok, .., done, 9"), Kind::Loss);
        assert_eq!(of("B", "1, .., done, ok, .., done, error: none"), Kind::Loss);
        assert_eq!(of("B", "1, .., done, ok, .., error: none, 5"), Kind::Failed);
        assert_eq!(of("F", "none, done, .., none"), Kind::Late);
        assert_eq!(of("C", "none, .., done, done, 4"), Kind::Loss);
        assert_eq!(of("D", "done, 2, .., done, ok, .., 2, none"), Kind::Late);
        assert_eq!(of("D", "done, 2, .., done, ok, .., 2, 2"), Kind::Loss);
    }
}
