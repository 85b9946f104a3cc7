package org.refdb.it;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The board and the alerts that the documents offer, beside the metrics that a server has. */
final class Monitoring {
  /** The name of a metric, without what follows it where there is one such metric for each cache. */
  private static final Pattern METRIC = Pattern.compile("\\b(plugins_refdb|refdb_caches)(_[a-z0-9]+)+");

  /** Prefix of the metrics of the plugin that only clusters have. */
  private static final String GLOBAL = "plugins_refdb_global_";

  private Monitoring() {}

  /** Returns the metrics that the board and the alerts name: those of the global ref database, or all others. */
  static Set<String> named(boolean global) throws IOException {
    Set<String> names = new TreeSet<>();
    for (String file : List.of("grafana/refdb.json", "prometheus/refdb.rules.yml")) {
      Matcher found = METRIC.matcher(Files.readString(docs().resolve(file)));
      while (found.find()) {
        if (found.group().startsWith(GLOBAL) == global) {
          names.add(found.group());
        }
      }
    }
    return names;
  }

  private static Path docs() {
    return Path.of(System.getProperty("refdb.scripts")).toAbsolutePath().resolveSibling("docs/operating");
  }

  /** A cache's metric has the cache's name at its end. */
  private static boolean isOfCache(String name, String metric) {
    return name.startsWith("refdb_caches_") && metric.startsWith(name + "_");
  }

  /** Those names that no metric of the server's has, as Prometheus' client for Dropwizard writes a name. */
  static List<String> missing(Collection<String> names, Collection<String> metrics) {
    List<String> written = metrics.stream().map(metric -> metric.replaceAll("[^a-zA-Z0-9:_]", "_")).toList();
    return names.stream()
        .filter(name -> written.stream().noneMatch(metric -> metric.equals(name) || isOfCache(name, metric)))
        .toList();
  }
}
