package org.refdb.gerrit.global;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.gerrit.global.disk.StoredRefs;

/** Which refs are stored, by the settings that Gerrit's module global-refdb documents. */
final class StoredRefsTest {
  private static final List<String> REFS =
      List.of(
          "HEAD", "refs/heads/main", "refs/changes/01/1/1", "refs/changes/01/1/meta", "refs/draft-comments/01/1/1000",
          "refs/cache-automerge/ab/cdef", "refs/sandbox/x");

  @TempDir Path etc;

  private StoredRefs of(String settings) throws IOException {
    Files.writeString(etc.resolve("high-availability.config"), settings);
    return StoredRefs.of(etc);
  }

  private static String stored(StoredRefs rules, String project) {
    return String.join(" ", REFS.stream().filter(ref -> rules.has(project, ref)).toList());
  }

  @Test
  void withoutSettingsMutableRefsAreStored() throws IOException {
    assertEquals("refs/heads/main refs/changes/01/1/meta refs/sandbox/x", stored(StoredRefs.of(etc), "any"));
  }

  @Test
  void aRuleForTheProjectComesBeforeOneForAll() throws IOException {
    StoredRefs rules =
        of(
            "[ref-database \"storeAllRefs\"]\nproject = all\nproject = both\n"
                + "[ref-database \"storeNoRefs\"]\nproject = *\nproject = both\n"
                + "[ref-database \"storeMutableRefs\"]\nproject = some\n"
                + "[ref-database]\nignoredRefsPrefixes = refs/sandbox\n");
    assertEquals(
        "refs/heads/main refs/changes/01/1/1 refs/changes/01/1/meta refs/draft-comments/01/1/1000"
            + " refs/cache-automerge/ab/cdef",
        stored(rules, "all"));
    assertEquals("refs/heads/main refs/changes/01/1/meta", stored(rules, "some"));
    assertEquals("", stored(rules, "other"));
    assertEquals("", stored(rules, "both"));
  }

  @Test
  void projectsAreNamedByPatternsOfThreeKinds() throws IOException {
    StoredRefs rules = of("[projects]\npattern = one\npattern = foo/b*\npattern = ^x.*[0-9]\n");
    assertTrue(Stream.of("one", "foo/b", "foo/bar", "x1").allMatch(rules::has));
    assertFalse(Stream.of("one2", "foobar", "bar/foo/b", "x", "ax1").anyMatch(rules::has));
    assertThrows(IOException.class, () -> of("[projects]\npattern = ^(\n"));
  }
}
