package org.refdb.gerrit.cache;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.metrics.CallbackMetric0;
import com.google.gerrit.metrics.CallbackMetric1;
import com.google.gerrit.metrics.Description;
import com.google.gerrit.metrics.DisabledMetricMaker;
import com.google.gerrit.metrics.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.cache.shared.RedisServer;

/** The board and the alerts that the documents offer name metrics that a server with a shared cache has. */
class SharedMetricsTest {
  private static final Pattern NAMED = Pattern.compile("refdb_shared_cache_([a-z0-9_]*[a-z0-9])");

  @TempDir Path site;

  private static final class Names extends DisabledMetricMaker {
    final Set<String> names = new TreeSet<>();

    @Override
    public <V> CallbackMetric0<V> newCallbackMetric(String name, Class<V> type, Description what) {
      names.add(name);
      return super.newCallbackMetric(name, type, what);
    }

    @Override
    public <F1, V> CallbackMetric1<F1, V> newCallbackMetric(
        String name, Class<V> type, Description what, Field<F1> field) {
      names.add(name);
      return super.newCallbackMetric(name, type, what, field);
    }
  }

  @Test
  void theDocumentsNameMetricsThatThereAre() throws Exception {
    Names made = new Names();
    try (RedisServer redis = new RedisServer(site);
        SharedNode node =
            new SharedNode(site, SharedNode.config(redis.address()), TestDef.named("fleet"), key -> key)) {
      new SharedMetrics(made, node.factory());
    }
    Set<String> named = new TreeSet<>();
    for (String file : List.of("grafana/refdb.json", "prometheus/refdb.rules.yml")) {
      Matcher found = NAMED.matcher(Files.readString(Path.of("..", "..", "docs", "operating").resolve(file)));
      while (found.find()) {
        named.add("refdb/shared_cache/" + found.group(1));
      }
    }
    assertTrue(named.size() > 5, "" + named);
    named.removeAll(made.names);
    assertEquals(Set.of(), named);
  }
}
