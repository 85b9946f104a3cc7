/// The bounds on the memory that a client's request may take. A request that exceeds one is refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that the commands may need in memory: their names, and [`COMMAND_BYTES`](super::Commands::COMMAND_BYTES)
    /// each. The bytes of a request that are kept for git, and those of a push certificate, have the same limit.
    pub commands_bytes: usize,
    /// Bytes that all push options together may need in memory: their texts, and the size of a `BString` each. Hooks
    /// receive them as environment variables, whose size the kernel limits.
    pub options_bytes: usize,
    /// Bytes that the object ids in `shallow` lines may need in memory.
    pub shallow_bytes: usize,
}

impl Default for Limits {
    /// Returns 1 GiB for commands, which is enough for about ten million, 1 MiB for push options, and 64 MiB for
    /// shallow commits.
    fn default() -> Self {
        Limits { commands_bytes: 1 << 30, options_bytes: 1 << 20, shallow_bytes: 64 << 20 }
    }
}
