package org.refdb.jgit;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;

class ViewSettingsTest {
  /** The engine reads no file of the user or the site. */
  @Test
  void whatTheUserOrTheSiteSetsIsPassedOn() throws Exception {
    Config outer = new Config();
    outer.fromText("[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 100\n[core]\n\tfilesRefLockTimeout = 7\n[gc]\n\tpackRefs = false\n");
    List<String> all = List.of("core.filesRefLockTimeout=7", "refdb.smallBatches=loose", "refdb.looseRefs=100");
    assertEquals(all, ViewSettings.of(new Config(outer)).config());
  }

  @Test
  void whatTheRepositorySetsItselfIsReadThere() throws Exception {
    Config outer = new Config();
    outer.fromText("[refdb]\n\tsmallBatches = loose\n\tlooseRefs = 100\n");
    Config own = new Config(outer);
    own.fromText("[refdb]\n\tsmallbatches = packed\n");
    assertEquals(List.of("refdb.looseRefs=100"), ViewSettings.of(own).config());
  }
}
