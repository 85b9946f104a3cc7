use super::{Changed, Plan, State, Step};
use bstr::BString;

/// The output and exit code of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// Standard output.
    pub out: BString,
    /// Standard error.
    pub err: BString,
    /// The exit code, or [`Said::SIGNALS`] plus the number of the signal that ended the program.
    pub code: i32,
}

impl Said {
    /// The number that is added to the number of a signal.
    pub const SIGNALS: i32 = 1000;
}

/// The context in which a single changed ref, reflog or file is judged.
#[derive(Clone, Copy, Debug)]
pub struct Left<'a> {
    /// Whether the `unify` of the same [`Difference`] has changed an output, so that the outputs differ for its reason.
    pub met: bool,
    /// All refs, reflogs and files that differ after the step.
    pub all: &'a [Changed],
    /// The output of git and of the tested program.
    pub said: [&'a Said; 2],
    /// The repository before the step.
    pub before: &'a State,
    /// How the repository was made.
    pub plan: &'a Plan,
}

/// An intended difference between git and the tested program.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// What differs, and the reason for it.
    pub why: &'static str,
    /// Makes both outputs equal if this is the difference between them. The output of git comes first.
    pub unify: fn(&Step, &mut Said, &mut Said),
    /// Returns whether this is the reason why a ref, a reflog or a file differs. If so, the plan ends with this step.
    pub left: fn(&Step, &Changed, Left<'_>) -> bool,
}

impl Difference {
    /// The `left` of differences that concern no ref, reflog or file.
    pub const LEFT_ALIKE: fn(&Step, &Changed, Left<'_>) -> bool = |_, _, _| false;
    /// The `left` of differences in which git refuses the command, so that git has changed nothing.
    pub const LEFT_BY_GIT: fn(&Step, &Changed, Left<'_>) -> bool =
        |_, changed, left| left.met && changed.git == changed.before;
    /// The `left` of differences in which the tested program refuses the command, so that it has changed nothing.
    pub const LEFT_BY_OTHER: fn(&Step, &Changed, Left<'_>) -> bool =
        |_, changed, left| left.met && changed.other == changed.before;
    /// The `unify` of differences that concern only refs, reflogs and files.
    pub const SAID_ALIKE: fn(&Step, &mut Said, &mut Said) = |_, _, _| {};
}
