package org.refdb.gerrit.global;

import com.google.gerrit.extensions.annotations.PluginName;
import com.google.gerrit.sshd.PluginCommandModule;
import com.google.inject.Inject;

/** The SSH commands: {@code ssh HOST refdb-global COMMAND}. */
public final class CommandsModule extends PluginCommandModule {
  @Inject
  CommandsModule(@PluginName String plugin) {
    super(plugin);
  }

  @Override
  protected void configureCommands() {
    command(AdminCommands.ShowStatus.class);
    command(AdminCommands.ImportRefs.class);
    command(AdminCommands.CompareRefs.class);
    command(AdminCommands.RepairRefs.class);
  }
}
