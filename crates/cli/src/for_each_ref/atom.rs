//! The fields that `%(...)` can name: git-for-each-ref(1), "FIELD NAMES".

use super::{date::DateForm, trailers::TrailerForm};
use bstr::BString;

mod parse;

/// A field, with or without `*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom {
    /// Whether the field shows the object to which an annotated tag leads (`*`).
    pub peeled: bool,
    /// What the field shows.
    pub field: Field,
}

/// What a field shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Field {
    Refname(NameForm),
    Symref(NameForm),
    Head,
    /// `upstream` and `push`.
    Counterpart(Direction, CounterpartForm),
    Worktreepath,
    /// `ahead-behind`: the number of commits by which the ref is ahead of and behind the commit of this name.
    AheadBehind(BString),
    /// `is-base`: the name of a commit, shown at the ref from which the commit's branch started.
    IsBase(BString),
    Objectname(IdForm),
    Objecttype,
    Objectsize,
    /// `objectsize:disk`: the size of the object where it is stored.
    Disksize,
    /// `deltabase`: the id of the delta base against which the object is stored.
    Deltabase,
    /// `describe`: the name that git-describe(1) gives the commit with these options.
    Describe(Vec<BString>),
    /// `signature`: the verdict of a program about a commit's signature.
    Signature(SignaturePart),
    /// `color`: the bytes that switch the color on.
    Color(BString),
    Tree(IdForm),
    /// `parent`: all parents, separated by spaces.
    Parent(IdForm),
    Numparent,
    /// `object`: the target of a tag.
    TagTarget,
    /// `type`: the type of a tag's target.
    TagType,
    /// `tag`: the name in a tag.
    TagName,
    /// `author`, `committername`, `taggerdate:short` and so on.
    Person(Role, Part),
    Subject {
        /// Whether the subject is shown in a form that suits a file name.
        sanitize: bool,
    },
    /// `body`: everything after the subject, including a tag's signature.
    Body,
    /// `contents` and its parts.
    Contents(Contents),
    /// `trailers` and `contents:trailers`.
    Trailers(TrailerForm),
    Raw,
    RawSize,
    /// `flag`: whether the ref is symbolic, and whether it is packed.
    Flag,
    /// `rest`, which only other commands of git support.
    Rest,
    /// A field that git accepts but for which it shows nothing.
    Blank {
        /// Whether the object must exist nevertheless.
        of_object: bool,
    },
}

/// Which counterpart of a branch is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The ref that the branch is merged with.
    Upstream,
    /// The ref that the branch is pushed to.
    Push,
}

/// The field of a branch's counterpart that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterpartForm {
    /// The local ref that tracks the counterpart.
    Name(NameForm),
    /// `[ahead 1, behind 2]` or `[gone]`.
    Track {
        brackets: bool,
    },
    /// `<>`, `>`, `<` or `=`.
    TrackShort,
    RemoteName,
    /// The name of the ref in the remote repository.
    RemoteRef,
}

/// How a refname is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameForm {
    /// Unchanged.
    Full,
    /// As short as possible without becoming ambiguous.
    Short,
    /// Without this number of components at the front. A negative number is the negated number of components that
    /// remain.
    Lstrip(i32),
    /// Without this number of components at the end. A negative number is the negated number of components that remain.
    Rstrip(i32),
}

/// How an object id is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdForm {
    /// With all digits.
    Full,
    /// Abbreviated without becoming ambiguous, to at least this number of digits or, if there is none, to at least the
    /// number that `core.abbrev` sets or git's default.
    Short(Option<usize>),
}

/// The person whose line of a commit or tag is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The author of a commit.
    Author,
    /// The committer of a commit.
    Committer,
    /// The tagger of a tag.
    Tagger,
    /// The committer of a commit or the tagger of a tag.
    Creator,
}

/// The part of a person's line that is shown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The whole line.
    Whole,
    Name {
        /// Whether the mail map (gitmailmap(5)) is applied.
        mapped: bool,
    },
    Email {
        form: EmailForm,
        /// Whether the mail map is applied.
        mapped: bool,
    },
    /// The time in a form; or git's message about an invalid form, which is printed only if an object has the person's
    /// line.
    Date(std::result::Result<DateForm, BString>),
}

/// How an address is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmailForm {
    /// With its brackets.
    Whole,
    /// Without brackets.
    Trimmed,
    /// The part before the `@`.
    Local,
}

/// The part of the verdict about a signature that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SignaturePart {
    /// The whole output of the program that checked the signature.
    Bare,
    /// A letter: `G` for good, `N` for none, and so on.
    Grade,
    Signer,
    Key,
    Fingerprint,
    PrimaryKeyFingerprint,
    TrustLevel,
}

/// The part of a message that is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contents {
    /// The whole message.
    Whole,
    Size,
    /// The first paragraph as one line.
    Subject,
    /// Everything after the first paragraph, without a signature.
    Body,
    /// The signature at the end of the message.
    Signature,
    /// The first lines.
    Lines(usize),
}
