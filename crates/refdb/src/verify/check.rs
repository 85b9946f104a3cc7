/// A check. All but the last four are git's and have the names that git-fsck(1) gives them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "git-fsck(1) says what each means")]
pub enum Check {
    BadHeadTarget,
    BadPackedRefEntry,
    BadPackedRefHeader,
    BadRefContent,
    BadRefFiletype,
    BadRefName,
    BadRefOid,
    BadReferentName,
    BadReftableTableName,
    EmptyPackedRefsFile,
    PackedRefEntryNotTerminated,
    PackedRefUnsorted,
    RefMissingNewline,
    SymlinkRef,
    SymrefTargetIsNotARef,
    TrailingRefContent,
    /// A ref's object is not in the repository.
    MissingRefObject,
    /// A branch, or HEAD, holds another object than a commit.
    BadRefObjectType,
    /// A reftable's blocks are not valid, or one is larger than git can read.
    BadReftable,
    /// A file lies where refs of another format would be. A program that opened the repository before a migration may
    /// have written it.
    StrayRef,
}

/// How much a fault matters, unless a setting says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// An error, whether checks are strict or not.
    Error,
    /// A warning, or an error where checks are strict.
    Warn,
    /// A warning even where checks are strict.
    Info,
}

impl Check {
    /// All checks.
    pub const ALL: [Check; 20] = [
        Self::BadHeadTarget,
        Self::BadPackedRefEntry,
        Self::BadPackedRefHeader,
        Self::BadRefContent,
        Self::BadRefFiletype,
        Self::BadRefName,
        Self::BadRefOid,
        Self::BadReferentName,
        Self::BadReftableTableName,
        Self::EmptyPackedRefsFile,
        Self::PackedRefEntryNotTerminated,
        Self::PackedRefUnsorted,
        Self::RefMissingNewline,
        Self::SymlinkRef,
        Self::SymrefTargetIsNotARef,
        Self::TrailingRefContent,
        Self::MissingRefObject,
        Self::BadRefObjectType,
        Self::BadReftable,
        Self::StrayRef,
    ];

    /// The name of the check in settings and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::BadHeadTarget => "badHeadTarget",
            Self::BadPackedRefEntry => "badPackedRefEntry",
            Self::BadPackedRefHeader => "badPackedRefHeader",
            Self::BadRefContent => "badRefContent",
            Self::BadRefFiletype => "badRefFiletype",
            Self::BadRefName => "badRefName",
            Self::BadRefOid => "badRefOid",
            Self::BadReferentName => "badReferentName",
            Self::BadReftableTableName => "badReftableTableName",
            Self::EmptyPackedRefsFile => "emptyPackedRefsFile",
            Self::PackedRefEntryNotTerminated => "packedRefEntryNotTerminated",
            Self::PackedRefUnsorted => "packedRefUnsorted",
            Self::RefMissingNewline => "refMissingNewline",
            Self::SymlinkRef => "symlinkRef",
            Self::SymrefTargetIsNotARef => "symrefTargetIsNotARef",
            Self::TrailingRefContent => "trailingRefContent",
            Self::MissingRefObject => "missingRefObject",
            Self::BadRefObjectType => "badRefObjectType",
            Self::BadReftable => "badReftable",
            Self::StrayRef => "strayRef",
        }
    }

    /// The level of the check's faults, unless a setting says otherwise.
    pub fn level(self) -> Level {
        match self {
            Self::BadReftableTableName | Self::StrayRef => Level::Warn,
            Self::EmptyPackedRefsFile
            | Self::RefMissingNewline
            | Self::SymlinkRef
            | Self::SymrefTargetIsNotARef
            | Self::TrailingRefContent => Level::Info,
            _ => Level::Error,
        }
    }
}
