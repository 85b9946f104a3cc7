use bstr::BString;

/// Why a client's bytes are not a valid request. The session must end; nothing has been changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{fault} (in the packet at byte {offset} of the request)")]
pub struct ProtocolError {
    /// The offset of the invalid packet in bytes, counted from the first byte that the client sent.
    pub offset: u64,
    /// What is wrong with the packet.
    pub fault: Fault,
}

/// What is wrong with a packet of a client.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The first four bytes of the packet are not all hexadecimal digits.
    #[error("protocol error: bad line length character: {}", .0.escape_ascii())]
    LengthDigits([u8; 4]),
    /// No packet may have this length. If it is too great, the value is the length of the data alone, as in git's
    /// message.
    #[error("protocol error: bad line length {0}")]
    Length(usize),
    /// The line does not have the form `OLD NEW NAME` of a command.
    #[error("protocol error: expected old/new/ref, got '{0}'")]
    Command(BString),
    /// The word after `shallow` is not an object id.
    #[error("protocol error: expected shallow sha, got '{0}'")]
    Shallow(BString),
    /// The client uses another hash function than the repository.
    #[error("error: unsupported object format '{0}'")]
    ObjectFormat(BString),
    /// The client signed the push, although the server did not offer signed pushes.
    #[error("protocol error: a push certificate was sent though no nonce was offered")]
    Certificate,
    /// A push option contains a zero byte, so that it cannot be passed to hooks in an environment variable.
    #[error("protocol error: a push option has a zero byte")]
    OptionByte,
    /// The client sent an error message.
    #[error("remote error: {0}")]
    Client(BString),
    /// The client disconnected before the end of the request.
    #[error("the remote end hung up unexpectedly")]
    End,
    /// The request exceeds one of its [`Limits`](super::Limits).
    #[error("the push has more than {limit} bytes of {what}; push in smaller parts")]
    TooMuch {
        /// The part of the request that is too large.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
}
