package org.refdb.gerrit.plugin;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.inject.Guice;
import com.google.inject.Injector;
import com.google.inject.ProvisionException;
import java.net.URL;
import java.net.URLClassLoader;
import org.junit.jupiter.api.Test;

final class PluginModuleTest {
  /** The classes of a server that runs while refdb is put into its site. */
  private static final class WithoutTheLibModule extends URLClassLoader {
    WithoutTheLibModule() {
      super(new URL[] {PluginModule.class.getProtectionDomain().getCodeSource().getLocation()});
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      if (!name.startsWith("org.refdb.")) {
        return super.loadClass(name, resolve);
      }
      Class<?> loaded = findLoadedClass(name);
      return loaded != null ? loaded : findClass(name);
    }
  }

  /** Gerrit warns of an exception and goes on. An error would end the thread that looks for plugins. */
  @Test
  void aServerWithoutTheLibModuleIsToldToBeRestarted() throws Exception {
    try (WithoutTheLibModule classes = new WithoutTheLibModule()) {
      Class<?> module = classes.loadClass(PluginModule.class.getName());
      Injector root = Guice.createInjector();
      String said = assertThrows(ProvisionException.class, () -> root.getInstance(module)).getMessage();
      assertTrue(said.contains("needs lib/refdb-gerrit.jar") && said.contains("restart Gerrit"), said);
    }
  }
}
