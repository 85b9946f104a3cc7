package org.refdb.gerrit.refs;

import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.git.GitRepositoryManagerModule;
import com.google.inject.ProvisionException;
import java.util.Arrays;
import java.util.List;
import org.eclipse.jgit.lib.Config;

/**
 * Detects other modules that replace Gerrit's repository manager. Gerrit uses the first one and silently drops the
 * others, but a site that is configured to run with refdb, or with multi-site, must not start without it.
 */
final class ModuleClaims {
  private ModuleClaims() {}

  /**
   * Checks the modules that {@code gerrit.installDbModule} names.
   *
   * @param own the calling module
   * @throws ProvisionException if another one claims {@value GitRepositoryManagerModule#MANAGER_MODULE} as well
   */
  static void checkOnly(Class<?> own, Config config) {
    List<String> others =
        Arrays.stream(config.getStringList("gerrit", null, "installDbModule"))
            .filter(name -> !name.equals(own.getName()))
            .filter(ModuleClaims::claims)
            .toList();
    if (!others.isEmpty()) {
      throw new ProvisionException(
          own.getName()
              + " and "
              + String.join(" and ", others)
              + " both take the place of Gerrit's module \""
              + GitRepositoryManagerModule.MANAGER_MODULE
              + "\", and Gerrit keeps just one: in gerrit.config remove one of"
              + " the two gerrit.installDbModule lines; if the other one wraps Gerrit's repositories (multi-site,"
              + " global-refdb), keep it and replace "
              + own.getName()
              + " by "
              + RefdbNamedDbModule.class.getName());
    }
  }

  private static boolean claims(String className) {
    try {
      ModuleImpl claim =
          Class.forName(className, false, ModuleClaims.class.getClassLoader()).getAnnotation(ModuleImpl.class);
      return claim != null && claim.name().equalsIgnoreCase(GitRepositoryManagerModule.MANAGER_MODULE);
    } catch (ClassNotFoundException e) {
      return false; // Gerrit refuses to start, with a better message
    }
  }
}
