package org.refdb.gerrit.cache.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import com.google.gerrit.server.cache.PersistentCacheDef;
import com.google.gerrit.server.change.ChangeKindCacheImpl;
import com.google.inject.spi.Element;
import com.google.inject.spi.Elements;
import com.google.inject.spi.ProviderInstanceBinding;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The settings of two sites that must be equal, so that each finds the other's values. */
class SharingTest {
  @TempDir Path site;

  private static PersistentCacheDef<?, ?> changeKind() {
    for (Element element : Elements.getElements(ChangeKindCacheImpl.module())) {
      if (element instanceof ProviderInstanceBinding<?> binding
          && binding.getUserSuppliedProvider() instanceof PersistentCacheDef<?, ?> def) {
        return def;
      }
    }
    throw new AssertionError("Gerrit has no such cache");
  }

  private List<String> context(String settings) throws Exception {
    Config config = new Config();
    config.fromText("[cache]\n\trefdbShared = redis://localhost:6379\n[gerrit]\n\tserverId = x\n" + settings);
    return new ValueContext(config, site).of(changeKind());
  }

  @Test
  void aSiteFindsTheValuesOfASiteWithTheSameSettingsOnly() throws Exception {
    String driver = "[merge \"own\"]\n\tdriver = a %A\n";
    assertEquals(context(driver), context("[sendemail]\n\tfrom = user\n" + driver));
    List<String> others =
        List.of(
            "",
            "[merge \"own\"]\n\tdriver = b %A\n",
            "[merge \"other\"]\n\tdriver = a %A\n",
            "[merge]\n\tdriver = a %A\n",
            driver + "\tdriver = a %A\n",
            driver + "[change]\n\tmergeabilityComputationBehavior = never\n");
    for (String other : others) {
      assertNotEquals(context(driver), context(other), other);
    }
    assertNotEquals(
        context("[diff]\n\tx = 1\n\tx = 2\n"), context("[diff]\n\tx = 3\n\tx = 2\n"), "an earlier value differs");
  }
}
