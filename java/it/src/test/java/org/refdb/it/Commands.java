package org.refdb.it;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** Runs programs and waits for them. */
final class Commands {
  private static final long MINUTES_MAX = 5;

  private Commands() {}

  /** What a program said, on both of its channels, and its status. */
  record Output(int status, String text) {}

  /** Runs a program that must succeed; returns what it said. */
  static String run(Path folder, String... command) throws IOException {
    Output output = attempt(folder, command);
    if (output.status() != 0) {
      throw new AssertionError(String.join(" ", command) + " ended with " + output.status() + ":\n" + output.text());
    }
    return output.text();
  }

  /** Runs a program that may fail. */
  static Output attempt(Path folder, String... command) throws IOException {
    Path said = Files.createTempFile("refdb-it", ".out");
    try {
      Process process =
          new ProcessBuilder(List.of(command))
              .directory(folder.toFile())
              .redirectErrorStream(true)
              .redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()))
              .redirectOutput(said.toFile()) // a file: what a daemon inherits must not keep a pipe open
              .start();
      if (!process.waitFor(MINUTES_MAX, TimeUnit.MINUTES)) {
        process.destroyForcibly();
        throw new AssertionError(String.join(" ", command) + " does not end; it said:\n" + Files.readString(said));
      }
      return new Output(process.exitValue(), Files.readString(said, StandardCharsets.UTF_8));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } finally {
      Files.delete(said);
    }
  }
}
