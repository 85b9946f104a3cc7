package org.refdb.gerrit.global;

import com.google.gerrit.extensions.annotations.PluginName;
import com.google.gerrit.sshd.PluginCommandModule;
import com.google.inject.Inject;
import org.refdb.gerrit.global.admin.CompareRefs;
import org.refdb.gerrit.global.admin.ImportRefs;
import org.refdb.gerrit.global.admin.RepairRefs;
import org.refdb.gerrit.global.admin.ShowStatus;

/** The SSH commands: {@code ssh HOST refdb-global COMMAND}. */
public final class CommandsModule extends PluginCommandModule {
  @Inject
  CommandsModule(@PluginName String plugin) {
    super(plugin);
  }

  @Override
  protected void configureCommands() {
    command(ShowStatus.Command.class);
    command(ImportRefs.Command.class);
    command(CompareRefs.Command.class);
    command(RepairRefs.Command.class);
  }
}
