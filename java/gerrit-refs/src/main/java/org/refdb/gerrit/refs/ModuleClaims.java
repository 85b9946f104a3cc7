package org.refdb.gerrit.refs;

import com.google.gerrit.server.ModuleImpl;
import com.google.gerrit.server.git.GitRepositoryManagerModule;
import com.google.inject.ProvisionException;
import java.util.Arrays;
import java.util.List;
import org.eclipse.jgit.lib.Config;

/**
 * Who else claims the place of Gerrit's repository manager. Gerrit takes the first module that does and drops the
 * others without a word. A site that believes to run with refdb, or with multi-site, and does not, must not start.
 */
final class ModuleClaims {
  private ModuleClaims() {}

  /**
   * Checks the modules that {@code gerrit.installDbModule} names.
   *
   * @param own the module that asks
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
          own.getName() + " and " + String.join(" and ", others) + " both take the place of Gerrit's module \""
              + GitRepositoryManagerModule.MANAGER_MODULE + "\", and Gerrit keeps just one: in gerrit.config remove one of"
              + " the two gerrit.installDbModule lines; if the other one wraps Gerrit's repositories (multi-site,"
              + " global-refdb), keep it and replace " + own.getName() + " by " + RefdbNamedDbModule.class.getName());
    }
  }

  private static boolean claims(String className) {
    try {
      ModuleImpl claim =
          Class.forName(className, false, ModuleClaims.class.getClassLoader()).getAnnotation(ModuleImpl.class);
      return claim != null && claim.name().equalsIgnoreCase(GitRepositoryManagerModule.MANAGER_MODULE);
    } catch (ClassNotFoundException e) {
      return false; // Gerrit itself refuses to start, and says so better
    }
  }
}
