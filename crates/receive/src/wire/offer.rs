use bstr::{BString, ByteSlice};
use refdb_types::{HashKind, space::is_space};

/// The capabilities that a server advertises, besides those that are the same for every server: report-status,
/// report-status-v2, delete-refs, side-band-64k and quiet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// The hash function of the repository.
    pub hash: HashKind,
    /// `receive.advertiseAtomic`.
    pub atomic: bool,
    /// `receive.advertisePushOptions`.
    pub push_options: bool,
    /// `repack.useDeltaBaseOffset`.
    pub ofs_delta: bool,
    /// The value of `agent`: the server's name and version.
    pub agent: BString,
    /// The value of `session-id`, or `None` to advertise none (`transfer.advertiseSID`).
    pub session_id: Option<BString>,
}

impl Offer {
    /// Returns the capabilities in the form that follows the first ref, separated by spaces.
    pub fn capabilities(&self) -> BString {
        let mut words = BString::from("report-status report-status-v2 delete-refs side-band-64k quiet");
        let mut add = |word: &[u8], value: &[u8]| {
            words.push(b' ');
            words.extend_from_slice(word);
            words.extend_from_slice(value);
        };
        for (word, offered) in
            [("atomic", self.atomic), ("ofs-delta", self.ofs_delta), ("push-options", self.push_options)]
        {
            if offered {
                add(word.as_bytes(), b"");
            }
        }
        if let Some(id) = &self.session_id {
            add(b"session-id=", id);
        }
        add(b"object-format=", self.hash.name().as_bytes());
        add(b"agent=", &self.agent);
        words
    }
}

/// The form of the report on its commands that a client requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReportFormat {
    /// No report.
    #[default]
    None,
    /// `report-status`.
    V1,
    /// `report-status-v2`.
    V2,
}

/// The capabilities that the client selected from the [`Offer`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Capabilities {
    /// The form of the report.
    pub report: ReportFormat,
    /// Whether the answer is sent in side bands.
    pub side_band: bool,
    /// Whether the client wants no progress messages.
    pub quiet: bool,
    /// Whether the client wants either all commands executed or none.
    pub atomic: bool,
    /// Whether push options follow the commands.
    pub push_options: bool,
    /// The client's name and version, or empty if it sent none.
    pub agent: BString,
    /// The client's session id, or empty if it sent none.
    pub session_id: BString,
}

impl Capabilities {
    /// Adds the capabilities in `words`, which followed a command; `atomic` and `push-options` count only if they were
    /// offered. Returns the first object format in `words`, or SHA-1 if there is none.
    ///
    /// As in git, a capability is accepted with or without a value, and the first of several values in `words` is used.
    pub(super) fn add<'w>(&mut self, words: &'w [u8], offer: &Offer) -> &'w [u8] {
        let (mut object_format, mut agent, mut session_id) = (None, None, None);
        for word in words.split(is_space) {
            let (key, value) = word.split_once_str("=").unwrap_or((word, b""));
            match key {
                b"report-status" => self.report = self.report.max(ReportFormat::V1),
                b"report-status-v2" => self.report = ReportFormat::V2,
                b"side-band-64k" => self.side_band = true,
                b"quiet" => self.quiet = true,
                b"atomic" => self.atomic = offer.atomic,
                b"push-options" => self.push_options = offer.push_options,
                b"object-format" => _ = object_format.get_or_insert(value),
                b"agent" => _ = agent.get_or_insert(value),
                b"session-id" => _ = session_id.get_or_insert(value),
                _ => {}
            }
        }
        if let Some(agent) = agent {
            self.agent = agent.into();
        }
        if let Some(id) = session_id {
            self.session_id = id.into();
        }
        object_format.unwrap_or(HashKind::Sha1.name().as_bytes())
    }
}

impl ReportFormat {
    fn max(self, other: Self) -> Self {
        if self == ReportFormat::None { other } else { self }
    }
}
