//! What `%(...)` can name. See git-for-each-ref(1), "FIELD NAMES".

use super::{date::DateForm, trailers::TrailerForm};
use bstr::BString;

mod parse;

/// A field, with `*` or without.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    /// `*`: the field of the object behind an annotated tag.
    pub peeled: bool,
    /// What it shows.
    pub field: Field,
}

/// What an atom shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    Refname(NameForm),
    Symref(NameForm),
    Head,
    /// `upstream` and `push`.
    Counterpart(Direction, CounterpartForm),
    Worktreepath,
    /// `ahead-behind`: how many commits it is ahead of a commit, by this name, and behind it.
    AheadBehind(BString),
    /// `is-base`: the name of a commit, at the ref from which its branch began.
    IsBase(BString),
    Objectname(IdForm),
    Objecttype,
    Objectsize,
    /// `objectsize:disk`: how much room the object takes where it is stored.
    Disksize,
    /// The object that it is stored as a difference from.
    Deltabase,
    /// `describe`: the name that git-describe(1) gives it with these options.
    Describe(Vec<BString>),
    /// `signature`: what a program says of a commit's signature.
    Signature(SignaturePart),
    /// `color`: the bytes that switch it on.
    Color(BString),
    Tree(IdForm),
    /// `parent`: all parents, separated by spaces.
    Parent(IdForm),
    Numparent,
    /// `object`: what a tag points at.
    TagTarget,
    /// `type`: the type of what a tag points at.
    TagType,
    /// `tag`: the name in a tag.
    TagName,
    /// `author`, `committername`, `taggerdate:short` and so on.
    Person(Role, Part),
    Subject {
        /// In a form that suits a file name.
        sanitize: bool,
    },
    /// `body`: what follows the subject, a tag's signature included.
    Body,
    /// `contents` and its parts.
    Contents(Contents),
    /// `trailers`, and `contents:trailers`.
    Trailers(TrailerForm),
    Raw,
    RawSize,
    /// `flag`: whether the ref is symbolic, and whether it is packed. git has it for its tests.
    Flag,
    /// `rest`, which only other commands of git have.
    Rest,
    /// What git accepts and shows nothing of.
    Blank {
        /// Whether the object must be there all the same.
        of_object: bool,
    },
}

/// Which of a branch's other sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// What it is merged with.
    Upstream,
    /// Where it is pushed to.
    Push,
}

/// The shown field of a branch's other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterpartForm {
    /// The ref here that stands for it.
    Name(NameForm),
    /// `[ahead 1, behind 2]`, `[gone]`.
    Track {
        brackets: bool,
    },
    /// `<>`, `>`, `<` or `=`.
    TrackShort,
    RemoteName,
    /// The ref's name there.
    RemoteRef,
}

/// How a refname is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameForm {
    /// As it is.
    Full,
    /// As short as it is unambiguous.
    Short,
    /// Without this number of components at the front; negative: with that number left.
    Lstrip(i32),
    /// Without this number of components at the end; negative: with that number left.
    Rstrip(i32),
}

/// How an object id is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdForm {
    /// As it is.
    Full,
    /// Shortened to at least this number of digits, or git's default, as far as it is unambiguous.
    Short(Option<usize>),
}

/// Whose line of a commit or tag it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A commit's author.
    Author,
    /// A commit's committer.
    Committer,
    /// A tag's tagger.
    Tagger,
    /// The committer or the tagger.
    Creator,
}

/// What of a person's line is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    Name {
        /// By the mail map (gitmailmap(5)).
        mapped: bool,
    },
    Email {
        form: EmailForm,
        /// By the mail map.
        mapped: bool,
    },
    /// The time, or why its form is none, which git says when there is a time to show.
    Date(std::result::Result<DateForm, BString>),
}

/// How an address is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmailForm {
    /// With its brackets.
    Whole,
    /// Without them.
    Trimmed,
    /// What stands before the `@`.
    Local,
}

/// The shown part of the answer about a commit's signature.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SignaturePart {
    /// All that the program said which looked at it.
    Bare,
    /// One letter: `G` for good, `N` for none and so on.
    Grade,
    Signer,
    Key,
    Fingerprint,
    PrimaryKeyFingerprint,
    TrustLevel,
}

/// What of a message is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// All of it.
    Whole,
    Size,
    /// The first paragraph as one line.
    Subject,
    /// What follows the first paragraph, without a signature.
    Body,
    /// The signature of a tag.
    Signature,
    /// The first lines.
    Lines(usize),
}
