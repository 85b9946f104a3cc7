package org.refdb.gerrit.install;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;

/**
 * Program {@code set|unset|check}: sets, removes or checks {@code gc.packRefs} and {@code
 * maintenance.pack-refs.enabled} in the git configuration of the user that runs it. It removes only lines that it
 * added.
 *
 * <p>{@code git gc} and {@code git maintenance} pack refs, and can restore refs that are deleted meanwhile. These two
 * settings stop them from packing. Gerrit's own garbage collection and {@code refdb pack-refs} pack refs instead, and
 * lose nothing.
 */
public final class GitSettings {
  private static final Set<String> NO = Set.of("false", "no", "off", "0");

  /**
   * A setting that must have one of {@code goodValues}. For {@code gc.packRefs}, {@code notbare} is one of them,
   * because Gerrit's repositories are bare.
   */
  private record Setting(String section, String subsection, String key, Set<String> goodValues) {
    @Override
    public String toString() {
      return section + (subsection == null ? "" : "." + subsection) + "." + key;
    }
  }

  private static final List<Setting> PACKING =
      List.of(
          new Setting("gc", null, "packRefs", Set.of("false", "no", "off", "0", "notbare")),
          new Setting("maintenance", "pack-refs", "enabled", NO));

  private GitSettings() {}

  /**
   * Executes {@code arguments[0]} on {@code ~/.gitconfig} and ends the process. The status is 0 after {@code unset},
   * and after {@code set} and {@code check} if both settings in that file keep git from packing; otherwise it is 1, and
   * the wrong settings are printed. If the user has no home folder, nothing is done, and the status is 1.
   */
  public static void main(String[] arguments) throws IOException {
    Path home = Path.of(System.getProperty("user.home"));
    if (!Files.isDirectory(home)) {
      System.out.println("there is no home folder " + home + ", and so no git configuration of this user");
      System.exit(1);
    }
    System.exit(run(arguments[0], home.resolve(".gitconfig")) ? 0 : 1);
  }

  static boolean run(String verb, Path file) throws IOException {
    ConfigFile config = ConfigFile.readOrNew(file);
    boolean changed = false;
    for (Setting setting : PACKING) {
      if (verb.equals("set")) {
        changed |= config.setUnlessSet(setting.section, setting.subsection, setting.key, "false");
      } else if (verb.equals("unset")) {
        changed |= config.unset(setting.section, setting.subsection, setting.key);
      }
    }
    if (changed) {
      config.write();
      System.out.println("wrote " + file);
    }
    return verb.equals("unset") || isGood(config, file);
  }

  private static boolean isGood(ConfigFile config, Path file) throws IOException {
    boolean isGood = true;
    for (Setting setting : PACKING) {
      Optional<String> bad = bad(config, file, setting);
      bad.ifPresent(value -> System.out.println(file + ": " + setting + " is " + value + ", and should be false"));
      isGood &= bad.isEmpty();
    }
    return isGood;
  }

  private static Optional<String> bad(ConfigFile config, Path file, Setting setting) throws IOException {
    String value = value(config, file, setting);
    boolean isGood = setting.goodValues.contains(value.toLowerCase(Locale.ROOT));
    return isGood ? Optional.empty() : Optional.of(value);
  }

  /** Asks git, which also reads the files that this one includes. Without a git that answers, reads this file alone. */
  private static String value(ConfigFile config, Path file, Setting setting) throws IOException {
    ProcessBuilder git = new ProcessBuilder("git", "config", "--includes", "--type=bool-or-str", "--default", "not set");
    git.command().addAll(List.of("--file", file.toString(), "--get", setting.toString()));
    git.environment().put("HOME", file.toAbsolutePath().getParent().toString());
    try {
      Process asked = git.redirectError(ProcessBuilder.Redirect.DISCARD).start();
      String said = new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
      if (asked.waitFor() == 0) {
        return said;
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException("interrupted", e);
    } catch (IOException e) {
      // There is no git.
    }
    List<String> values = config.values(setting.section, setting.subsection, setting.key);
    return values.isEmpty() ? "not set" : values.getLast();
  }
}
