/// What a client can make grow, and how far. A request beyond a limit is refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that the commands may need in memory: their names, and [`COMMAND_BYTES`](super::Commands::COMMAND_BYTES) each.
    pub commands_bytes: usize,
    /// Bytes of all push options. They reach hooks as environment variables, for which the kernel has little room.
    pub options_bytes: usize,
    /// Bytes of the ids of a shallow clone's edge.
    pub shallow_bytes: usize,
}

impl Default for Limits {
    /// 1 GiB of commands, which are about ten million; 1 MiB of options; 64 MiB of a shallow clone's edge.
    fn default() -> Self {
        Limits { commands_bytes: 1 << 30, options_bytes: 1 << 20, shallow_bytes: 64 << 20 }
    }
}
