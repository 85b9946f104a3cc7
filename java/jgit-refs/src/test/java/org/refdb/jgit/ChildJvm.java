package org.refdb.jgit;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Starts another JVM with the same classes. */
final class ChildJvm {
  private ChildJvm() {}

  static Process start(Class<?> main, List<String> options, List<String> arguments) throws IOException {
    return builder(main, options, arguments).redirectError(ProcessBuilder.Redirect.INHERIT).start();
  }

  /** Starts a JVM whose log is part of its output, before what it prints last. */
  static Process startWith(Map<String, String> environment, Class<?> main, List<String> arguments) throws IOException {
    ProcessBuilder builder = builder(main, List.of(), arguments).redirectErrorStream(true);
    builder.environment().putAll(environment);
    return builder.start();
  }

  private static ProcessBuilder builder(Class<?> main, List<String> options, List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.add("--enable-native-access=ALL-UNNAMED");
    command.addAll(options);
    command.addAll(List.of("-cp", classPath(), main.getName()));
    command.addAll(arguments);
    return new ProcessBuilder(command);
  }

  /** Waits for the end of the process's output, and returns the last line. */
  static String lastLine(Process process) throws IOException {
    String last = "";
    try (BufferedReader out = process.inputReader(StandardCharsets.UTF_8)) {
      for (String line = out.readLine(); line != null; line = out.readLine()) {
        last = line;
      }
    }
    return last;
  }

  /** Surefire may hide the class path in a jar's manifest, which a child reads just as well. */
  private static String classPath() {
    String inTests = System.getProperty("surefire.test.class.path");
    return inTests != null ? inTests : System.getProperty("java.class.path") + File.pathSeparator;
  }
}
