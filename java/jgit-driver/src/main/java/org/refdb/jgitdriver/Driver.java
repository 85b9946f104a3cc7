package org.refdb.jgitdriver;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.storage.file.FileRepositoryBuilder;

/**
 * Opens one repository with JGit and executes the commands on standard input, one per line. Fields are separated by
 * tabs.
 *
 * <p>An answer is any number of lines that begin with {@code =}, then {@code ok} or {@code error REASON}. {@link
 * Commands} says what each command does.
 */
public final class Driver {
  private Driver() {}

  /** Opens the repository {@code args[0]} and serves until stdin ends. */
  public static void main(String[] args) throws IOException {
    var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    var out =
        new PrintWriter(new BufferedWriter(new OutputStreamWriter(System.out, StandardCharsets.UTF_8)));
    try (Repository repository = new FileRepositoryBuilder().setGitDir(new File(args[0])).setMustExist(true).build()) {
      var commands = new Commands(repository, in, data -> out.print("=" + data + "\n"));
      for (String line; (line = in.readLine()) != null; ) {
        out.print(answer(commands, line) + "\n");
        out.flush();
      }
    }
  }

  private static String answer(Commands commands, String line) {
    try {
      commands.run(line.split("\t", -1));
      return "ok";
    } catch (Exception e) {
      return "error " + e.toString().replace('\n', ' ');
    }
  }
}
