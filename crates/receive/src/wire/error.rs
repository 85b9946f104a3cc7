use bstr::BString;

/// Why a client's bytes are no request. The session is over: nothing has been changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{fault} (in the packet at byte {offset} of the request)")]
pub struct ProtocolError {
    /// Where the packet starts, counted from the first byte that the client sent.
    pub offset: u64,
    /// Its fault.
    pub fault: Fault,
}

/// The fault of a packet.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The length is not four hexadecimal digits.
    #[error("protocol error: bad line length character: {}", .0.escape_ascii())]
    LengthDigits([u8; 4]),
    /// No packet has this length. A length beyond the limit is told without its own four bytes.
    #[error("protocol error: bad line length {0}")]
    Length(usize),
    /// The line is no command.
    #[error("protocol error: expected old/new/ref, got '{0}'")]
    Command(BString),
    /// The id after `shallow` is none.
    #[error("protocol error: expected shallow sha, got '{0}'")]
    Shallow(BString),
    /// The client names objects by another hash function.
    #[error("error: unsupported object format '{0}'")]
    ObjectFormat(BString),
    /// A signed push, which was not offered.
    #[error("protocol error: a push certificate was sent though no nonce was offered")]
    Certificate,
    /// A push option that no variable of a hook could hold.
    #[error("protocol error: a push option has a zero byte")]
    OptionByte,
    /// The client gave up, and why.
    #[error("remote error: {0}")]
    Client(BString),
    /// The client left within the request.
    #[error("the remote end hung up unexpectedly")]
    End,
    /// A [limit](super::Limits) is reached.
    #[error("the push has more than {limit} bytes of {what}; push in smaller parts")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How many bytes there may be.
        limit: usize,
    },
}
