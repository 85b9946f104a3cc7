package org.refdb.gerrit.global.disk;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;
import org.eclipse.jgit.errors.ConfigInvalidException;
import org.eclipse.jgit.lib.Config;
import org.eclipse.jgit.lib.Constants;

/**
 * Decides which refs are stored in the global ref database, by the settings in {@code SITE/etc/PLUGIN.config} of the
 * plugin that uses it. Commands consider these refs only.
 */
public final class StoredRefs {
  /** The plugins whose settings may apply. Those of the first one that has a file are used. */
  private static final List<String> PLUGINS = List.of("high-availability", "multi-site", "global-refdb");

  private static final String ANY = "*";

  /** A setting that names projects, and thereby which of their refs are stored. */
  private enum Rule {
    NONE("storeNoRefs"),
    MUTABLE("storeMutableRefs"),
    ALL("storeAllRefs");

    private final String name;

    Rule(String name) {
      this.name = name;
    }
  }

  private final Config config;
  private final List<Predicate<String>> projects;
  private final List<String> ignored;

  public StoredRefs(Config config) {
    this.config = config;
    projects = Arrays.stream(config.getStringList("projects", null, "pattern")).map(StoredRefs::pattern).toList();
    ignored = List.of(config.getStringList("ref-database", null, "ignoredRefsPrefixes"));
  }

  public static StoredRefs of(Path etc) throws IOException {
    for (String plugin : PLUGINS) {
      Path file = etc.resolve(plugin + ".config");
      if (Files.exists(file)) {
        Config config = new Config();
        try {
          config.fromText(Files.readString(file));
          return new StoredRefs(config);
        } catch (ConfigInvalidException | IllegalArgumentException e) {
          throw new IOException(file + " cannot be used: " + e.getMessage(), e);
        }
      }
    }
    return new StoredRefs(new Config());
  }

  private static Predicate<String> pattern(String text) {
    if (text.startsWith("^")) {
      try {
        return Pattern.compile(text).asMatchPredicate();
      } catch (PatternSyntaxException e) {
        throw new IllegalArgumentException("projects.pattern " + text + ": " + e.getMessage(), e);
      }
    }
    if (text.endsWith(ANY)) {
      return name -> name.startsWith(text.substring(0, text.length() - 1));
    }
    return text::equals;
  }

  /** Returns whether any ref of a project is stored. */
  public boolean has(String project) {
    boolean isOurs = projects.isEmpty() || projects.stream().anyMatch(pattern -> pattern.test(project));
    return isOurs && rule(project) != Rule.NONE;
  }

  /**
   * Returns whether a ref of this name is stored, which HEAD is not. A symbolic ref counts as missing in etcd, because
   * Gerrit's global-refdb interface does not pass its target.
   */
  public boolean has(String project, String ref) {
    if (!has(project) || !ref.startsWith(Constants.R_REFS) || ignored.stream().anyMatch(ref::startsWith)) {
      return false;
    }
    return rule(project) == Rule.ALL || !isImmutable(ref);
  }

  private static boolean isImmutable(String ref) {
    return ref.startsWith("refs/draft-comments")
        || ref.startsWith("refs/cache-automerge")
        || ref.startsWith("refs/changes/") && !ref.endsWith("/meta");
  }

  /** Returns the rule that names the project, else the one for all projects, else {@link Rule#MUTABLE}. */
  private Rule rule(String project) {
    for (String name : List.of(project, ANY)) {
      for (Rule rule : Rule.values()) {
        if (Arrays.asList(config.getStringList("ref-database", rule.name, "project")).contains(name)) {
          return rule;
        }
      }
    }
    return Rule.MUTABLE;
  }
}
