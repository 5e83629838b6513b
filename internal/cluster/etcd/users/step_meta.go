package users

import "github.com/quorate/quorate/internal/cluster"

func (Protect) Meta() cluster.Meta        { return cluster.Meta{Reason: "AddingFinalizer"} }
func (AddRole) Meta() cluster.Meta        { return cluster.Meta{Reason: "AddingRole"} }
func (SetPermissions) Meta() cluster.Meta { return cluster.Meta{Reason: "SettingPermissions"} }
func (AddUser) Meta() cluster.Meta        { return cluster.Meta{Reason: "AddingUser"} }
func (SetPassword) Meta() cluster.Meta    { return cluster.Meta{Reason: "SettingPassword"} }
func (GrantRole) Meta() cluster.Meta      { return cluster.Meta{Reason: "GrantingRole"} }
func (RevokeRoles) Meta() cluster.Meta    { return cluster.Meta{Reason: "RevokingRoles"} }
func (DeleteUser) Meta() cluster.Meta     { return cluster.Meta{Reason: "DeletingUser"} }
func (DeleteRole) Meta() cluster.Meta     { return cluster.Meta{Reason: "DeletingRole"} }
func (Publish) Meta() cluster.Meta        { return cluster.Meta{Reason: "WritingConnection"} }
func (Release) Meta() cluster.Meta        { return cluster.Meta{Reason: "RemovingFinalizer"} }
