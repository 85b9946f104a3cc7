package org.refdb.gerrit.refs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.config.SitePaths;
import com.google.gerrit.server.git.GitRepositoryManager;
import com.google.gerrit.server.git.GitRepositoryManagerModule;
import com.google.gerrit.server.git.LocalDiskRepositoryManager;
import com.google.inject.AbstractModule;
import com.google.inject.Injector;
import com.google.inject.Key;
import com.google.inject.ProvisionException;
import com.google.inject.name.Names;
import com.google.inject.util.Modules;
import java.io.IOException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.List;
import org.eclipse.jgit.lib.Config;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.refdb.engine.ServerNote;

final class ModulesTest {
  @TempDir Path site;

  /** Stands for the module with which multi-site, or another cache, replaces the repository manager. */
  @ModuleImpl(name = GitRepositoryManagerModule.MANAGER_MODULE)
  static final class RivalModule extends AbstractModule {}

  /** A module that has nothing to do with repositories. */
  static final class OtherModule extends AbstractModule {}

  @Test
  void aRivalForTheSamePlaceIsNamedAtTheStart() throws IOException {
    Config config = Sites.config();
    config.setStringList(
        "gerrit", null, "installDbModule", List.of(RivalModule.class.getName(), RefdbDbModule.class.getName()));
    Injector injector = Sites.injector(site, config, Modules.EMPTY_MODULE);
    ProvisionException refused =
        assertThrows(ProvisionException.class, () -> injector.getInstance(RefdbDbModule.class));
    assertTrue(refused.getMessage().contains(RivalModule.class.getName()), refused.getMessage());
    assertTrue(refused.getMessage().contains(RefdbNamedDbModule.class.getName()), refused.getMessage());
  }

  @Test
  void otherModulesAreNoRivals() throws IOException {
    Config config = Sites.config();
    config.setStringList(
        "gerrit",
        null,
        "installDbModule",
        List.of(OtherModule.class.getName(), "no.such.Module", RefdbDbModule.class.getName()));
    assertInstanceOf(RefdbRepositoryManager.class, Sites.manager(site, config));
  }

  @Test
  void aModuleThatWrapsRepositoriesGetsOursByName() throws IOException {
    Injector base = Sites.injector(site, Sites.config(), Modules.EMPTY_MODULE);
    Injector db = base.createChildInjector(base.getInstance(RefdbNamedDbModule.class));
    GitRepositoryManager named =
        db.getInstance(Key.get(GitRepositoryManager.class, Names.named("LocalDiskRepositoryManager")));
    assertInstanceOf(RefdbRepositoryManager.class, named);
    assertEquals(named, db.getInstance(RefdbRepositoryManager.class), "one manager, one cache");
  }

  /** After {@code install --named} on a site without a wrapper, refdb's manager is offered, but nobody uses it. */
  @Test
  void whatIsLentAndNobodyTakesIsNotInUse() throws IOException {
    Injector base = Sites.injector(site, Sites.config(), Modules.EMPTY_MODULE);
    RefdbRepositoryManager lent =
        base.createChildInjector(base.getInstance(RefdbNamedDbModule.class)).getInstance(RefdbRepositoryManager.class);
    GitRepositoryManager wrapper = (GitRepositoryManager) Proxy.newProxyInstance(
        getClass().getClassLoader(), new Class<?>[] {GitRepositoryManager.class}, (self, method, arguments) -> null);
    for (GitRepositoryManager bound : List.of(lent, wrapper, Sites.disk(site))) {
      new StartNote(new SitePaths(site), lent, bound).start();
      ServerNote note = ServerNote.running(site, ServerNote.Half.REFS).orElseThrow();
      boolean isUsed = !(bound instanceof LocalDiskRepositoryManager);
      assertEquals(isUsed, note.inUse(), note.text());
      assertEquals(isUsed, note.text().isEmpty());
    }
  }

  @Test
  void aMemoryLimitThatCannotWorkIsRefused() {
    Config config = new Config();
    config.setString("refdb", null, "memoryLimit", "64m");
    assertEquals(64 << 20, Settings.of(config).memoryBytes());
    config.setString("refdb", null, "memoryLimit", "10");
    assertThrows(IllegalArgumentException.class, () -> Settings.of(config));
  }
}
