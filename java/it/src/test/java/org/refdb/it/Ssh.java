package org.refdb.it;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Gerrit's commands over SSH, as one user whose key this makes. */
final class Ssh {
  private final Path scratch;
  private final GerritServer server;
  private final String user;
  private final Path key;

  /** Makes a key in a folder and tells Gerrit of it. */
  Ssh(Path scratch, GerritServer server, String user, Rest rest) throws IOException {
    this.scratch = scratch;
    this.server = server;
    this.user = user;
    this.key = scratch.resolve("ssh-key-" + user);
    Commands.run(scratch, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key.toString());
    rest.good("POST", "/accounts/self/sshkeys", Files.readString(Path.of(key + ".pub")));
  }

  /** Runs a command that must succeed; returns what it said. */
  String run(String... words) throws IOException {
    Commands.Output said = attempt(words);
    assertEquals(0, said.status(), said.text());
    return said.text();
  }

  /** Runs a command that may fail. */
  Commands.Output attempt(String... words) throws IOException {
    return Commands.attempt(scratch, command(words));
  }

  /** Runs a command whose output is another's input; returns what the other said. */
  String pipe(String from, String to) throws IOException {
    String line = String.join(" ", command("'" + from + "'")) + " | " + String.join(" ", command("'" + to + "'"));
    return Commands.run(scratch, "bash", "-o", "pipefail", "-c", line);
  }

  /** Runs git with version 2 of its protocol over SSH, which must succeed; returns what it said. */
  String git(String git, String... words) throws IOException {
    List<String> command = new ArrayList<>();
    command.addAll(List.of(git, "-c", "core.sshCommand=" + String.join(" ", options()), "-c", "protocol.version=2"));
    command.addAll(List.of(words));
    return Commands.run(scratch, command.toArray(String[]::new));
  }

  private String[] command(String... words) {
    List<String> command = new ArrayList<>(options());
    command.addAll(List.of("-p", String.valueOf(server.sshPort()), user + "@localhost", String.join(" ", words)));
    return command.toArray(String[]::new);
  }

  private List<String> options() {
    return List.of(
        "ssh", "-i", key.toString(), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o",
        "UserKnownHostsFile=" + scratch.resolve("known-hosts"), "-o", "LogLevel=ERROR", "-F", "none");
  }
}
