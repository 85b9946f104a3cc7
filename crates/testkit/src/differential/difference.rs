use super::{Changed, Plan, State, Step};
use bstr::BString;

/// What a program said, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// Standard output.
    pub out: BString,
    /// Standard error.
    pub err: BString,
    /// The exit code, or a signal's number and [`Said::SIGNALS`].
    pub code: i32,
}

impl Said {
    /// What is added to the number of a signal.
    pub const SIGNALS: i32 = 1000;
}

/// All that a step left otherwise, beside the piece of it that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// Whether `unify` met what it is for.
    pub met: bool,
    /// All refs, reflogs and files that are not the same.
    pub all: &'a [Changed],
    /// What git and the tested program said.
    pub said: [&'a Said; 2],
    /// The repository before the step.
    pub before: &'a State,
    /// How the repository was made.
    pub plan: &'a Plan,
}

/// A difference that is meant.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What differs, and why it is meant.
    pub why: &'static str,
    /// Makes both alike if this is the difference between them: first git's answer, then the tested program's.
    pub unify: fn(&Step, &mut Said, &mut Said),
    /// Whether this is why a ref or a reflog differs. The plan then ends with this step.
    pub left: fn(&Step, &Changed, Left<'_>) -> bool,
}

impl Difference {
    /// For differences that leave refs and reflogs alone.
    pub const LEFT_ALIKE: fn(&Step, &Changed, Left<'_>) -> bool = |_, _, _| false;
    /// For commands that git refuses for that reason: it has changed nothing.
    pub const LEFT_BY_GIT: fn(&Step, &Changed, Left<'_>) -> bool =
        |_, changed, left| left.met && changed.git == changed.before;
    /// For commands that the tested program refuses for that reason: it has changed nothing.
    pub const LEFT_BY_OTHER: fn(&Step, &Changed, Left<'_>) -> bool =
        |_, changed, left| left.met && changed.other == changed.before;
    /// For differences of refs and reflogs only.
    pub const SAID_ALIKE: fn(&Step, &mut Said, &mut Said) = |_, _, _| {};
}
