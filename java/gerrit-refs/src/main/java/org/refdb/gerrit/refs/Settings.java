package org.refdb.gerrit.refs;

import com.google.gerrit.server.config.ConfigUtil;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.eclipse.jgit.lib.Config;
import org.refdb.engine.SiteLibrary;

/**
 * The section {@code [refdb]} of gerrit.config, and Gerrit's own settings of ref databases.
 *
 * @param memoryBytes memory for all repositories together, off the Java heap: {@code memoryLimit}
 * @param openFiles number of files kept open, at most half of the process's limit; 0 for a quarter of that limit, but
 *     at most 8,192: {@code openFiles}
 * @param nativeDirectory folder into which the native library is unpacked, null for {@link SiteLibrary}'s default:
 *     {@code nativeDirectory}
 * @param verifyInterval how often a project in use is compared with the disk, zero for never: {@code verifyInterval}
 * @param shadowProjects projects that start in shadow mode; a trailing {@code *} matches any rest of a name: {@code
 *     shadow}
 * @param metricsProjectsMax how many of the busiest projects have metrics of their own: {@code metricsProjects}
 * @param metricsProjects further projects with metrics of their own: {@code metricsProject}
 * @param perRequest whether a request that only reads may see each ref as it was when that request first read it:
 *     {@code core.usePerRequestRefCache}
 */
record Settings(
    long memoryBytes,
    int openFiles,
    String nativeDirectory,
    Duration verifyInterval,
    List<String> shadowProjects,
    int metricsProjectsMax,
    Set<String> metricsProjects,
    boolean perRequest) {
  private static final String SECTION = SiteLibrary.SECTION;
  private static final long MEMORY_DEFAULT = 256L << 20;
  private static final long MEMORY_MIN = 1L << 20;
  private static final int OPEN_FILES_MIN = 16;
  private static final long VERIFY_MINUTES_DEFAULT = 60;
  private static final int METRICS_PROJECTS_DEFAULT = 10;

  /** Upper limit, because each project costs about 20 time series. */
  private static final int METRICS_PROJECTS_MAX = 1000;

  private static final String ANYTHING = "*";

  static Settings of(Config config) {
    long memory = config.getLong(SECTION, null, "memoryLimit", MEMORY_DEFAULT);
    if (memory < MEMORY_MIN) {
      throw new IllegalArgumentException(
          "refdb.memoryLimit is " + memory + " in gerrit.config: it must be at least 1m");
    }
    int openFiles = config.getInt(SECTION, null, "openFiles", 0);
    if (openFiles != 0 && openFiles < OPEN_FILES_MIN) {
      throw new IllegalArgumentException(
          "refdb.openFiles is " + openFiles + " in gerrit.config: it must be at least " + OPEN_FILES_MIN
              + ", or 0 for a quarter of what the process may have open");
    }
    long verifyMillis =
        ConfigUtil.getTimeUnit(
            config, SECTION, null, "verifyInterval", TimeUnit.MINUTES.toMillis(VERIFY_MINUTES_DEFAULT),
            TimeUnit.MILLISECONDS);
    int busiest = config.getInt(SECTION, null, "metricsProjects", METRICS_PROJECTS_DEFAULT);
    Set<String> named = Set.copyOf(List.of(config.getStringList(SECTION, null, "metricsProject")));
    if (busiest < 0 || busiest + named.size() > METRICS_PROJECTS_MAX) {
      throw new IllegalArgumentException(
          "refdb.metricsProjects and refdb.metricsProject in gerrit.config ask for metrics of " + busiest + " and "
              + named.size() + " projects: at most " + METRICS_PROJECTS_MAX + " can have them");
    }
    return new Settings(
        memory,
        openFiles,
        config.getString(SECTION, null, SiteLibrary.KEY),
        Duration.ofMillis(Math.max(0, verifyMillis)),
        List.of(config.getStringList(SECTION, null, "shadow")),
        busiest,
        named,
        config.getBoolean("core", null, "usePerRequestRefCache", true));
  }

  /** Returns whether a project starts in shadow mode. */
  boolean shadows(String project) {
    return shadowProjects.stream()
        .anyMatch(
            pattern ->
                pattern.endsWith(ANYTHING)
                    ? project.startsWith(pattern.substring(0, pattern.length() - ANYTHING.length()))
                    : project.equals(pattern));
  }
}
