package org.refdb.gerrit.plugin;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.sshd.BaseCommand;
import com.google.gerrit.sshd.CommandMetaData;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.refdb.gerrit.plugin.cache.CacheCommands;

/** The plugin's pages name all metrics and commands. Whether they describe them rightly, java/it tests in a Gerrit. */
final class DocumentationTest {
  @Test
  void everyMetricIsDescribed() throws IOException {
    String page = page("metrics");
    for (Figure figure : Figure.ALL) {
      assertTrue(page.contains('`' + figure.name() + '`'), figure.name());
    }
    for (Holding holding : Holding.ALL) {
      assertTrue(page.contains('`' + holding.name() + '`'), holding.name());
    }
  }

  @Test
  void everyCommandHasAPageThatIsLinked() throws IOException {
    String about = page("about");
    for (String name : names(Stream.concat(Stream.of(ShowStatus.Command.class), CommandsModule.FOR_REFS.stream()))) {
      assertTrue(page("cmd-" + name).startsWith("@PLUGIN@ " + name + "\n"), name);
      assertTrue(about.contains("(cmd-" + name + ".html)"), name);
    }
    String caches = page("cmd-cache");
    for (String name : names(CacheCommands.ALL.stream())) {
      assertTrue(caches.contains('`' + name + '`'), name);
    }
  }

  @Test
  void whatOnlyGrowsIsToldToGerritAsCumulative() {
    List<String> cumulative =
        Figure.ALL.stream().filter(figure -> figure.describe("").isCumulative()).map(Figure::name).toList();
    assertTrue(
        cumulative.containsAll(
            List.of("hits", "misses", "commits", "stale", "plain_evicted", "shadow/different")));
    List<String> gauges =
        Figure.ALL.stream()
            .filter(figure -> figure.describe("").isGauge())
            .map(Figure::name)
            .toList();
    assertEquals(
        List.of(
            "projects",
            "refused_projects",
            "bytes",
            "largest_commit_group",
            "broken",
            "unsorted",
            "git_packs",
            "stale_at_most_millis",
            "unverified_millis",
            "shadow/projects"),
        gauges);
  }

  private static List<String> names(Stream<Class<? extends BaseCommand>> commands) {
    return commands.map(type -> type.getAnnotation(CommandMetaData.class).name()).toList();
  }

  private static String page(String name) throws IOException {
    try (InputStream stream = DocumentationTest.class.getResourceAsStream("/Documentation/" + name + ".md")) {
      assertTrue(stream != null, "there is no page " + name);
      return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
