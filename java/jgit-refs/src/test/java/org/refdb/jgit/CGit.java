package org.refdb.jgit;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Runs git itself: the one that the system property {@code refdb.test.git} names, which knows reftables. */
final class CGit {
  private CGit() {}

  /** Returns whether git succeeded; its output is discarded. */
  static boolean run(Path gitDir, String... arguments) throws IOException, InterruptedException {
    Process process = start(gitDir, arguments, ProcessBuilder.Redirect.DISCARD);
    process.getInputStream().readAllBytes();
    return process.waitFor() == 0;
  }

  static String read(Path gitDir, String... arguments) throws IOException, InterruptedException {
    Process process = start(gitDir, arguments, ProcessBuilder.Redirect.INHERIT);
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    if (process.waitFor() != 0) {
      throw new IOException("git " + String.join(" ", arguments) + " failed");
    }
    return out;
  }

  private static Process start(Path gitDir, String[] arguments, ProcessBuilder.Redirect errors) throws IOException {
    String git = System.getProperty("refdb.test.git");
    if (git == null || git.isEmpty()) {
      throw new IOException("the system property refdb.test.git does not name git's program: use scripts/build-java");
    }
    List<String> command = new ArrayList<>(List.of(git, "--git-dir=" + gitDir));
    command.addAll(List.of(arguments));
    ProcessBuilder builder = new ProcessBuilder(command).redirectError(errors);
    builder.environment().putAll(Map.of("GIT_CONFIG_NOSYSTEM", "1", "GIT_CONFIG_GLOBAL", "/dev/null"));
    return builder.start();
  }
}
